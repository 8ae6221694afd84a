"""`zmon doctor`: check that sources, detectors, rules and alert routes work."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import click
import msgspec
from rich.console import Console

from zmon.cli.options import (
    AGENT_URL,
    HUB_URL,
    PROMETHEUS_URL,
    box_dir_option,
    data_dir_option,
    http_config_option,
    hub_option,
    json_option,
    stack_url,
    url_help,
)
from zmon.cli.render.status import doctor_table
from zmon.doctor import Login, examine
from zmon.schema.http_config import HttpConfig
from zmon.stack import password


@click.command()
@data_dir_option
@box_dir_option
@click.option("--agent", envvar="ZMON_AGENT_URL", metavar="URL", help=url_help("the agent of this node", AGENT_URL))
@hub_option
@http_config_option
@click.option("--prometheus", envvar="ZMON_PROMETHEUS_URL", metavar="URL", help=url_help("Prometheus", PROMETHEUS_URL))
@json_option
def doctor(
    data_dir: Path,
    box_dir: Path | None,
    agent: str | None,
    hub: str | None,
    http: HttpConfig | None,
    prometheus: str | None,
    as_json: bool,
) -> None:
    """Check that sources, detectors, rules and alert routes work.

    Each check is armed (the part works), inert (it does not work) or absent (there is nothing to watch).

    Exit codes: 0 nothing is inert, 1 something is inert, 2 misuse.
    """
    agent = agent or stack_url(data_dir, "agent") or AGENT_URL
    hub = hub or stack_url(data_dir, "hub") or HUB_URL
    prometheus = prometheus or stack_url(data_dir, "prometheus") or PROMETHEUS_URL
    alertmanager = stack_url(data_dir, "alertmanager")
    login = Login(alertmanager, password.USER, data_dir / password.FILE) if alertmanager else None
    checks = asyncio.run(examine(box_dir, agent.rstrip("/"), hub.rstrip("/"), prometheus.rstrip("/"), login, http))
    if as_json:
        click.echo(msgspec.json.encode({"schema": 1, "checks": checks}).decode())
    else:
        Console().print(doctor_table(checks))
    sys.exit(1 if any(check.armed is False for check in checks) else 0)
