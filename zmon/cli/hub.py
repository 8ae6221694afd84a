"""`zmon hub`: run the hub of a cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

import click

from zmon.cli import options
from zmon.cli.daemon import Listening, listening_options, serve
from zmon.cli.thresholds import YamlMapping, detectors_option
from zmon.detectors import Detector
from zmon.errors import UsageError, ZmonError
from zmon.hub import Hub, HubConfig, discovery
from zmon.hub.acts import Policy, read_policy
from zmon.hub.alert_labels import PAGE, AlertLabels, read_alert_labels
from zmon.hub.discovery.file_sd import FileTargets
from zmon.hub.discovery.target import TargetSource
from zmon.hub.memory import limit_cycle_searches
from zmon.notify import AppriseService, Recipient
from zmon.offline.measured_files import read_peaks
from zmon.schema.http_config import ClientConfig
from zmon.schema.names import MAX_LABELS
from zmon.schema.shard import Shard, parse
from zmon.stack import StackConfig
from zmon.steplog.files import lock_directory


@click.command()
@listening_options(StackConfig.hub_port)
@click.option(
    "--agents",
    envvar="ZMON_AGENTS",
    default="",
    metavar="URL,…",
    help="The agents: URLs, file:PATH (a file_sd file of Prometheus), dns:NAME:PORT, srv:NAME, prometheus:URL or "
    f"kubernetes:NAMESPACE/SELECTOR. Those that are no URLs may come and go. Default: {options.AGENT_URL}.",
)
@click.option(
    "--agents-file",
    envvar="ZMON_AGENTS_FILE",
    default="",
    metavar="PATH,…",
    help="The same as file:PATH in --agents. A pattern such as /etc/zmon/agents-*.json is allowed.",
)
@options.agents_kubernetes_option
@options.http_configs_option("agents")
@options.data_dir_option
@click.option(
    "--max-job-labels",
    envvar="ZMON_MAX_JOB_LABELS",
    type=click.IntRange(0, MAX_LABELS),
    default=MAX_LABELS,
    show_default=True,
    help="Labels of a job in /metrics. A series has four more; the label_limit of Prometheus counts all of them.",
)
@click.option(
    "--alert-labels",
    envvar="ZMON_ALERT_LABELS",
    type=YamlMapping(read_alert_labels, PAGE),
    default="{}",
    metavar="YAML",
    help="Labels of a job that its alerts carry, with their values or a pattern, such as {tier: [hero, normal]}. The "
    "rules of Prometheus need their names: python -m dashboards.rules --alert-labels tier.",
)
@click.option(
    "--shard",
    envvar="ZMON_SHARD",
    default="",
    metavar="I/N",
    help="Judge only the jobs of this shard, by a hash of the job id: 0/4 is the first of four hubs.",
)
@click.option(
    "--peaks",
    envvar="ZMON_PEAKS",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File with peak rates of devices, as zmon bench-peak --out writes it. The datasheets of GPUs are built in.",
)
@options.notify_file_option("recipients")
@options.act_option("policy", read_policy)
@detectors_option
@options.allowed_hosts_option
def hub(
    listening: Listening,
    agents: str,
    agents_file: str,
    agents_kubernetes: str,
    http: ClientConfig | None,
    data_dir: Path,
    max_job_labels: int,
    alert_labels: AlertLabels,
    shard: str,
    peaks: Path | None,
    recipients: tuple[Recipient, ...] | None,
    policy: Policy | None,
    detectors: tuple[Detector, ...],
    allowed_hosts: tuple[str, ...],
) -> None:
    """Run the hub: diagnose the jobs and publish findings."""
    http = http or ClientConfig()
    scheme = "https" if http.agents is not None and http.agents.tls_config is not None else "http"
    targets = [*options.comma_separated(agents), *(f"file:{path}" for path in options.comma_separated(agents_file))]
    if agents_kubernetes:
        targets.append(f"kubernetes:{agents_kubernetes}")
    if not (targets or agents or agents_file):  # an option that names no agent, such as --agents ",", is an error
        targets = [options.AGENT_URL]
    urls, sources = discovery.agents(targets, scheme, http.prometheus)
    if listening.check_config:
        _check_files(sources)
        for recipient in recipients or ():
            AppriseService(recipient)
    else:
        with contextlib.suppress(OSError):  # a hub that cannot write works, and reports what it cannot write
            next_step = "End it first, or choose another one with --data-dir"
            lock_directory(data_dir, "hub.lock", "another zmon hub is running", next_step)
    limit_cycle_searches()
    config = HubConfig(
        urls,
        data_dir,
        detectors,
        sources=sources,
        allowed_hosts=allowed_hosts,
        max_job_labels=max_job_labels,
        alert_labels=alert_labels,
        shard=_shard(shard),
        peaks=read_peaks(peaks) if peaks else {},
        recipients=recipients or (),
        policy=policy,
        web=listening.web_config,
        http=http.agents,
    )
    serve("hub", listening, lambda: Hub(config).app(), config.reserved_files)


def _shard(text: str) -> Shard | None:
    """Return the shard that the option names, such as `0/4`; None for "". Raises UsageError."""
    try:
        return parse(text) if text else None
    except ValueError as error:
        raise UsageError(f"--shard: {error}") from error


def _check_files(sources: Iterable[TargetSource]) -> None:
    """Read each file that lists agents. Raises UsageError if one is wrong."""
    for source in sources:
        if isinstance(source, FileTargets):
            try:
                source.read()
            except ZmonError as error:
                raise UsageError(str(error)) from error
