"""`zmon ends`: list the launches that ended, with their outcomes."""

from __future__ import annotations

import click

from zmon.cli.options import HubOptions, hub_options, json_option
from zmon.cli.render import show
from zmon.cli.render.records import ends_text
from zmon.client import Hub

_DAY_SECONDS = 86400.0


@click.command()
@click.argument("job_id", metavar="[JOB]", required=False)
@click.option("--days", type=click.FloatRange(min=0, min_open=True), help="Only ends of the last so many days.")
@click.option(
    "--limit", type=click.IntRange(1), default=20, show_default=True, help="Number of ends to show, the newest first."
)
@hub_options
@json_option
def ends(job_id: str | None, days: float | None, limit: int, hub: HubOptions, as_json: bool) -> None:
    """List how launches of all jobs, or of JOB, ended: done, failed and why, cancelled, node lost.

    The hub remembers ends for 90 days.

    Exit codes: 0 listed, 1 the hub does not answer, 2 misuse.
    """
    seconds = -1.0 if days is None else days * _DAY_SECONDS  # -1: all that the hub remembers
    answer = Hub(hub.url, http=hub.http).ends(job_id, seconds=seconds, limit=limit)
    show(as_json, answer, ends_text(answer, job_id, days))
