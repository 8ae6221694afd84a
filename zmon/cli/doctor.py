"""`zmon doctor`: would anybody notice, and be told?"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import click
import msgspec
from rich.console import Console

from zmon.cli.options import AGENT_URL, HUB_URL, PROMETHEUS_URL, box_dir_option, data_dir_option, stack_url
from zmon.cli.render.status import doctor_table
from zmon.doctor import examine


@click.command()
@data_dir_option
@box_dir_option
@click.option("--agent", envvar="ZMON_AGENT_URL", help="Base URL of this node's agent.")
@click.option("--hub", envvar="ZMON_HUB_URL", help="Base URL of the hub.")
@click.option("--prometheus", envvar="ZMON_PROMETHEUS_URL", help="Base URL of Prometheus.")
@click.option("--json", "as_json", is_flag=True)
def doctor(
    data_dir: Path, box_dir: Path, agent: str | None, hub: str | None, prometheus: str | None, as_json: bool
) -> None:
    """Would anybody notice, and be told? Sources, detectors, rules, routes. Exit code 0: all armed, 1: some inert."""
    agent = agent or stack_url(data_dir, "agent") or AGENT_URL
    hub = hub or stack_url(data_dir, "hub") or HUB_URL
    prometheus = prometheus or stack_url(data_dir, "prometheus") or PROMETHEUS_URL
    checks = asyncio.run(examine(box_dir, agent.rstrip("/"), hub.rstrip("/"), prometheus.rstrip("/")))
    if as_json:
        click.echo(msgspec.json.encode({"schema": 1, "checks": checks}).decode())
    else:
        Console().print(doctor_table(checks))
    sys.exit(1 if any(check.armed is False for check in checks) else 0)
