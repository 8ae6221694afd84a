"""`zmon hub`: run the hub of a cluster."""

from __future__ import annotations

import contextlib
import gc
from pathlib import Path

import click

from zmon.cli.daemon import serve
from zmon.cli.options import (
    AGENT_URL,
    allowed_hosts_option,
    bind_option,
    comma_separated,
    data_dir_option,
    port_option,
    public_option,
)
from zmon.cli.thresholds import detectors_option
from zmon.detectors import Detector
from zmon.errors import UsageError
from zmon.files.lock import lock_directory
from zmon.hub import Hub, HubConfig
from zmon.schema.labels import MAX_LABELS
from zmon.stack import StackConfig

# A pass of the hub makes about 100,000 objects, and hardly any of them are in a reference cycle. By default, Python
# searches for cycles every 700 objects, which takes a quarter of the time of decoding.
_OBJECTS_PER_PASS = 100_000


@click.command()
@bind_option
@public_option
@port_option(StackConfig.hub_port)
@click.option(
    "--agents",
    envvar="ZMON_AGENTS",
    default=AGENT_URL,
    show_default=True,
    metavar="URL,…",
    help="URLs of the agents.",
)
@data_dir_option
@click.option(
    "--max-job-labels",
    envvar="ZMON_MAX_JOB_LABELS",
    type=click.IntRange(0, MAX_LABELS),
    default=MAX_LABELS,
    show_default=True,
    help="Labels of a job in /metrics. With four more, a series must not exceed the label_limit of Prometheus.",
)
@detectors_option
@allowed_hosts_option
def hub(
    bind: str,
    public: bool,
    port: int,
    agents: str,
    data_dir: Path,
    max_job_labels: int,
    detectors: tuple[Detector, ...],
    allowed_hosts: tuple[str, ...],
) -> None:
    """Run the hub: diagnose the jobs and publish findings."""
    urls = tuple(url.rstrip("/") for url in comma_separated(agents))
    if not urls or not all(url.startswith(("http://", "https://")) for url in urls):
        raise UsageError(
            f"--agents {agents!r} names no agent", "it takes http:// URLs", "For example http://node-1:9780"
        )
    with contextlib.suppress(OSError):  # the hub says itself what it cannot write, and works without
        lock_directory(
            data_dir, "hub.lock", "another zmon hub is running", "End it first, or choose another one with --data-dir"
        )
    gc.set_threshold(_OBJECTS_PER_PASS)
    config = HubConfig(urls, data_dir, detectors, allowed_hosts=allowed_hosts, max_job_labels=max_job_labels)
    serve("hub", bind, public, port, lambda: Hub(config).app(), config.reserved_files)
