"""`zmon doctor`: check that sources, detectors, rules and alert routes work."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import click

from zmon.cli.options import (
    AGENT_URL,
    HUB_URL,
    PROMETHEUS_URL,
    agents_kubernetes_option,
    box_dir_option,
    data_dir_option,
    http_config_option,
    hub_option,
    json_option,
    stack_url,
    url_help,
)
from zmon.cli.render import show
from zmon.cli.render.status import doctor_table
from zmon.doctor import Login, examine, examine_kubernetes
from zmon.errors import UsageError
from zmon.schema.http_config import HttpConfig
from zmon.stack import password
from zmon.web.kubernetes.agent_pods import PodSelection, pod_selection
from zmon.web.kubernetes.api_server import in_cluster


@click.command()
@data_dir_option
@box_dir_option
@click.option("--agent", envvar="ZMON_AGENT_URL", metavar="URL", help=url_help("the agent of this node", AGENT_URL))
@hub_option
@http_config_option
@click.option("--prometheus", envvar="ZMON_PROMETHEUS_URL", metavar="URL", help=url_help("Prometheus", PROMETHEUS_URL))
@click.option(
    "--kubernetes",
    is_flag=True,
    help="Check pods, DaemonSets, monitors and rules of the Kubernetes cluster, and not this node. It works in a pod, "
    "such as that of the hub; what the service account of the pod may not read is unknown.",
)
@agents_kubernetes_option
@json_option
def doctor(
    data_dir: Path,
    box_dir: Path | None,
    agent: str | None,
    hub: str | None,
    http: HttpConfig | None,
    prometheus: str | None,
    kubernetes: bool,
    agents_kubernetes: str,
    as_json: bool,
) -> None:
    """Check that sources, detectors, rules and alert routes work.

    Each check is armed (the part works), inert (it does not work) or absent (there is nothing to watch).

    Exit codes: 0 nothing is inert, 1 something is inert, 2 misuse.
    """
    agent = agent or stack_url(data_dir, "agent") or AGENT_URL
    hub = (hub or stack_url(data_dir, "hub") or HUB_URL).rstrip("/")
    prometheus = (prometheus or stack_url(data_dir, "prometheus") or PROMETHEUS_URL).rstrip("/")
    alertmanager = stack_url(data_dir, "alertmanager")
    login = Login(alertmanager, password.USER, data_dir / password.FILE) if alertmanager else None
    if kubernetes:
        agents = _pods(agents_kubernetes) if agents_kubernetes else None
        checks = asyncio.run(examine_kubernetes(in_cluster(), agents, hub, prometheus, http))
    else:
        checks = asyncio.run(examine(box_dir, agent.rstrip("/"), hub, prometheus, login, http))
    show(as_json, {"schema": 1, "checks": checks}, doctor_table(checks))
    sys.exit(1 if any(check.armed is False for check in checks) else 0)


def _pods(text: str) -> PodSelection:
    """Return the pods that `--agents-kubernetes` selects. Raises UsageError."""
    pods = pod_selection(text)
    if pods is None:
        raise UsageError(f"--agents-kubernetes {text!r} names no agent", "", "Write NAMESPACE/SELECTOR")
    return pods
