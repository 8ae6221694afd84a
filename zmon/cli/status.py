"""`zmon status`: the jobs, and what is wrong with them."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import aiohttp
import click
import msgspec
from rich.console import Console

from zmon.cli.options import HUB_URL, data_dir_option, stack_url
from zmon.cli.render.plan import plan_table
from zmon.cli.render.status import status_table
from zmon.cli.render.time_account import time_table
from zmon.errors import NotServed, Unreachable, UsageError
from zmon.schema.api import FindingList, FindingsRequest, JobList, JobsRequest, PlanRequest, PlanTable, endpoints
from zmon.web import client

BLIND = 3  # exit code of `zmon status` when nobody can tell


@click.command()
@data_dir_option
@click.option("--hub", envvar="ZMON_HUB_URL", help="Base URL of the hub.")
@click.option(
    "--job", "job_id", help="This job alone: where its time went, and what its trainer had planned beside what is."
)
@click.option("--json", "as_json", is_flag=True)
def status(data_dir: Path, hub: str | None, job_id: str | None, as_json: bool) -> None:
    """Jobs and what is wrong with them. Exit code 0: healthy, 1: findings, 3: nobody can tell."""
    base = (hub or stack_url(data_dir, "hub") or HUB_URL).rstrip("/")

    async def ask() -> tuple[JobList, FindingList, PlanTable | None]:
        async with aiohttp.ClientSession() as session:
            return (
                await client.ask(session, base, endpoints.JOBS, JobsRequest(), 3.0),
                await client.ask(session, base, endpoints.FINDINGS, FindingsRequest(job_id, active=True), 3.0),
                await client.ask(session, base, endpoints.PLAN, PlanRequest(job_id), 3.0) if job_id else None,
            )

    try:
        jobs, found, plan = asyncio.run(ask())
    except NotServed as error:
        raise UsageError(f"no plan of job {job_id}", str(error), "zmon status lists the jobs that are there") from error
    except Unreachable as error:
        click.echo(f"zmon: {error}. Is the hub running? Name it with --hub", err=True)
        sys.exit(BLIND)
    listed = [job for job in jobs.jobs if job_id in (None, job.job_id)]
    if as_json:
        answer = {"schema": 1, "blind": jobs.blind, "jobs": listed, "findings": found.findings}
        click.echo(msgspec.json.encode(answer | ({"plan": plan} if plan else {})).decode())
    else:
        Console().print(status_table(listed, found.findings, jobs.blind, time.time()))
        if plan is not None:
            Console().print(*map(time_table, listed), plan_table(plan), sep="\n")
    sys.exit(BLIND if jobs.blind else 1 if found.findings else 0)
