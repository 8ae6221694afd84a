"""`zmon agent`: run the agent of this node."""

from __future__ import annotations

from pathlib import Path

import click

from zmon.agent import Agent, AgentConfig
from zmon.cli.daemon import serve
from zmon.cli.options import (
    allowed_hosts_option,
    bind_option,
    box_dir_option,
    data_dir_option,
    host_option,
    port_option,
    public_option,
)
from zmon.cli.thresholds import leases_option
from zmon.job.lease import Leases
from zmon.schema.limits import host_name
from zmon.stack import StackConfig


@click.command()
@bind_option
@public_option
@port_option(StackConfig.agent_port)
@box_dir_option
@host_option
@data_dir_option
@click.option(
    "--without",
    envvar="ZMON_WITHOUT",
    default="",
    metavar="NAME,…",
    help="Sources to disable, for example gpu,nic,steps.",
)
@leases_option
@allowed_hosts_option
def agent(
    bind: str,
    public: bool,
    port: int,
    box_dir: Path,
    host: str,
    data_dir: Path,
    without: str,
    leases: Leases,
    allowed_hosts: tuple[str, ...],
) -> None:
    """Run the agent: watch the ranks and the hardware of this node."""
    disabled = frozenset(name.strip() for name in without.split(",") if name.strip())
    config = AgentConfig(box_dir, host_name(host), data_dir, disabled, leases, allowed_hosts=allowed_hosts)
    serve("agent", bind, public, port, lambda: Agent(config).app(), config.reserved_files)
