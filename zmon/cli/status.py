"""`zmon status`: show the state of the jobs and their findings."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import aiohttp
import click
import msgspec
from rich.console import Console

from zmon.cli.options import HUB_URL, data_dir_option, hub_option, json_option, stack_url
from zmon.cli.render.plan import plan_table
from zmon.cli.render.status import status_table
from zmon.cli.render.time_account import time_table
from zmon.errors import NotServed, Unreachable, UsageError
from zmon.schema.api import FindingList, FindingsRequest, JobList, JobsRequest, PlanRequest, PlanTable, endpoints
from zmon.web import client

BLIND = 3  # exit code: the state is unknown


@click.command()
@data_dir_option
@hub_option
@click.option(
    "--job",
    "job_id",
    metavar="ID",
    help="ID of a job to show in detail: its time categories, and its plan compared with measurements.",
)
@json_option
def status(data_dir: Path, hub: str | None, job_id: str | None, as_json: bool) -> None:
    """Show the state of all jobs and their findings.

    A job that a fault ended is shown for a day, or until a newer launch of it has finished a step.

    Exit codes: 0 no findings, 1 findings, or a job that a fault ended, 2 misuse, 3 unknown (the hub does not answer,
    or no agent answers the hub).
    """
    base = (hub or stack_url(data_dir, "hub") or HUB_URL).rstrip("/")

    async def ask() -> tuple[JobList, FindingList, PlanTable | None]:
        async with aiohttp.ClientSession() as session:
            jobs = await client.ask(session, base, endpoints.JOBS, JobsRequest(), 3.0)
            has_ended = any(job.job_id == job_id and job.ended for job in jobs.jobs)
            return (
                jobs,
                await client.ask(session, base, endpoints.FINDINGS, FindingsRequest(job_id, active=True), 3.0),
                await _plan(session, base, job_id, has_ended) if job_id else None,
            )

    try:
        jobs, findings, plan = asyncio.run(ask())
    except NotServed as error:
        raise UsageError(f"cannot show job {job_id}", str(error), "zmon status lists all jobs") from error
    except Unreachable as error:
        click.echo(f"zmon: {error}. Is the hub running? Set its URL with --hub", err=True)
        sys.exit(BLIND)
    shown = [job for job in jobs.jobs if job_id in (None, job.job_id)]
    if as_json:
        answer = {"schema": 1, "blind": jobs.blind, "as_of": jobs.as_of, "jobs": shown, "findings": findings.findings}
        click.echo(msgspec.json.encode(answer | ({"plan": plan} if plan else {})).decode())
    else:
        Console().print(status_table(shown, findings.findings, jobs.blind, time.time(), jobs.as_of))
        if job_id:
            Console().print(*map(time_table, shown), *([plan_table(plan)] if plan else []), sep="\n")
    sys.exit(BLIND if jobs.blind else 1 if findings.findings or any(job.ended for job in shown) else 0)


async def _plan(session: aiohttp.ClientSession, base: str, job_id: str, has_ended: bool) -> PlanTable | None:
    """Return the plan of a job; None if the job has ended and its ranks are forgotten."""
    try:
        return await client.ask(session, base, endpoints.PLAN, PlanRequest(job_id), 3.0)
    except NotServed:
        if has_ended:
            return None
        raise
