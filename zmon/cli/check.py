"""`zmon check`: the state of this host in one line and an exit code, for schedulers."""

from __future__ import annotations

import asyncio
import sys

import click

from zmon.cli.options import AGENT_URL, http_config_option, url_option
from zmon.doctor.host_state import MAX_LINE_LENGTH, HostState, State, host_state
from zmon.errors import Unreachable, UsageError
from zmon.schema.api import SnapshotRequest, endpoints
from zmon.schema.http_config import HttpConfig
from zmon.web import client, http_client

_TIMEOUT_SECONDS = 1.5  # the scheduler waits two seconds for this program, and Python takes a part of them to start


@click.command()
@click.option("--host", "of_host", is_flag=True, help="Check the hardware of this host.")
@url_option("--agent", "ZMON_AGENT_URL", "the agent of this host", AGENT_URL, of_stack=False)
@http_config_option("agents")
def check(of_host: bool, agent: str, http: HttpConfig | None) -> None:
    """Check this host, as node-problem-detector and Slurm's HealthCheckProgram want it: one line, within two seconds.

    Exit codes: 0 no fault, 1 a fault of the hardware that lasts, 2 unknown or misuse.
    """
    if not of_host:
        raise UsageError("nothing to check", "no option says what to check", "Add --host")
    state, reason = asyncio.run(_ask(agent.rstrip("/"), http))
    click.echo(reason if len(reason) <= MAX_LINE_LENGTH else f"{reason[: MAX_LINE_LENGTH - 1]}…")
    sys.exit(state)


async def _ask(agent: str, http: HttpConfig | None) -> HostState:
    """Return the state of the host as its agent reports it."""
    try:
        async with http_client.session(http) as session:
            report = await client.ask(session, agent, endpoints.SNAPSHOT, SnapshotRequest(), _TIMEOUT_SECONDS)
    except Unreachable as error:
        return HostState(State.UNKNOWN, str(error))
    return host_state(report)
