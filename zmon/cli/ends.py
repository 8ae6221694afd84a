"""`zmon ends`: list the launches that ended, with their outcomes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from zmon.cli.options import HUB_URL, data_dir_option, http_config_option, hub_option, json_option, stack_url
from zmon.cli.render import show
from zmon.cli.render.ends import ends_text
from zmon.schema.api import EndList, EndsRequest, endpoints
from zmon.schema.http_config import HttpConfig
from zmon.web import client, http_client

_DAY_SECONDS = 86400.0
_TIMEOUT_SECONDS = 5.0


@click.command()
@click.argument("job_id", metavar="[JOB]", required=False)
@click.option("--days", type=click.FloatRange(min=0, min_open=True), help="Only ends of the last so many days.")
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=20,
    show_default=True,
    help="Number of ends to show, the newest first.",
)
@data_dir_option
@hub_option
@http_config_option("hub")
@json_option
def ends(
    job_id: str | None,
    days: float | None,
    limit: int,
    data_dir: Path,
    hub: str | None,
    http: HttpConfig | None,
    as_json: bool,
) -> None:
    """List how launches of all jobs, or of JOB, ended: done, failed and why, cancelled, node lost.

    The hub remembers ends for 90 days.

    Exit codes: 0 listed, 1 the hub does not answer, 2 misuse.
    """
    base = (hub or stack_url(data_dir, "hub") or HUB_URL).rstrip("/")
    request = EndsRequest(job_id, -1.0 if days is None else days * _DAY_SECONDS, limit)

    async def ask() -> EndList:
        async with http_client.session(http) as session:
            return await client.ask(session, base, endpoints.ENDS, request, _TIMEOUT_SECONDS)

    answer = asyncio.run(ask())
    show(as_json, answer, ends_text(answer))
