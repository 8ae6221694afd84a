"""`zmon doctor`: check that sources, detectors, rules and alert routes work."""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from pathlib import Path

import click

from zmon.cli import options
from zmon.cli.render import show
from zmon.cli.render.status import doctor_table
from zmon.doctor import Login, examine, examine_kubernetes
from zmon.errors import UsageError
from zmon.schema.http_config import SERVERS, ClientConfig
from zmon.stack import password
from zmon.web.kubernetes.agent_pods import pod_selection
from zmon.web.kubernetes.api_server import in_cluster


@click.command()
@options.data_dir_option
@options.box_dir_option
@options.url_option("--agent", "ZMON_AGENT_URL", "the agent of this node", options.AGENT_URL)
@options.hub_option
@options.http_configs_option(*SERVERS)
@options.url_option("--prometheus", "ZMON_PROMETHEUS_URL", "Prometheus", options.PROMETHEUS_URL)
@click.option(
    "--kubernetes",
    is_flag=True,
    help="Check pods, DaemonSets, monitors and rules of the Kubernetes cluster, and not this node. It works in a pod, "
    "such as that of the hub; what the service account of the pod may not read is unknown.",
)
@options.agents_kubernetes_option
@options.json_option
def doctor(
    data_dir: Path,
    box_dir: Path | None,
    agent: str | None,
    hub: str | None,
    http: ClientConfig | None,
    prometheus: str | None,
    kubernetes: bool,
    agents_kubernetes: str,
    as_json: bool,
) -> None:
    """Check that sources, detectors, rules and alert routes work.

    Each check is armed (the part works), inert (it does not work) or absent (nothing to watch, or not known).

    Exit codes: 0 nothing is inert, 1 something is inert, 2 misuse.
    """
    stack = partial(options.stack_url, data_dir)
    agent = (agent or stack("agent") or options.AGENT_URL).rstrip("/")
    hub = (hub or stack("hub") or options.HUB_URL).rstrip("/")
    prometheus = (prometheus or stack("prometheus") or options.PROMETHEUS_URL).rstrip("/")
    alertmanager = stack("alertmanager")
    login = Login(alertmanager, password.USER, data_dir / password.FILE) if alertmanager else None
    if kubernetes:
        agents = pod_selection(agents_kubernetes)
        if agents_kubernetes and agents is None:
            what = f"--agents-kubernetes {agents_kubernetes!r} names no agent"
            raise UsageError(what, "", "Write NAMESPACE/SELECTOR")
        checks = asyncio.run(examine_kubernetes(in_cluster(), agents, hub, prometheus, http))
    else:
        checks = asyncio.run(examine(box_dir, agent, hub, prometheus, login, http))
    show(as_json, {"schema": 1, "checks": checks}, doctor_table(checks))
    sys.exit(1 if any(check.armed is False for check in checks) else 0)
