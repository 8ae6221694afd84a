"""`zmon status`: show the state of the jobs and their findings."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time

import click
import msgspec
from rich.console import Console
from rich.text import Text

from zmon.cli.completion import job_ids
from zmon.cli.options import HubOptions, hub_options, json_option
from zmon.cli.render.plan import plan_table
from zmon.cli.render.status import status_table
from zmon.cli.render.time_account import time_table
from zmon.client import AsyncHub
from zmon.errors import NotServed, Unreachable, ZmonError
from zmon.schema.api import FindingList, JobList, PlanTable
from zmon.schema.job import unseen

UNKNOWN = 3  # exit code: the state of the job, or of all jobs, is unknown


@click.command()
@hub_options
@click.option(
    "--job",
    "job_id",
    metavar="ID",
    shell_complete=job_ids,
    help="ID of a job to show in detail: its time categories, and its plan compared with measurements.",
)
@json_option
def status(hub: HubOptions, job_id: str | None, as_json: bool) -> None:
    """Show the state of all jobs and their findings.

    A job that a fault ended is shown for a day, or until a newer launch of it has finished a step.

    Exit codes: 0 no findings, 1 findings, or a job that a fault ended, 2 misuse, 3 unknown (the hub does not answer,
    no agent answers the hub, or the hub does not know the job).
    """
    client = AsyncHub(hub.url, http=hub.http, timeout=3.0)

    async def ask() -> tuple[JobList, FindingList, PlanTable | None]:
        async with client:
            jobs = await client.jobs()
            findings = await client.findings(job_id, active=True)
            plan = None
            if job_id:
                with contextlib.suppress(NotServed):  # the hub knows no ranks of it
                    plan = await client.plan(job_id)
            return jobs, findings, plan

    try:
        jobs, findings, plan = asyncio.run(ask())
    except Unreachable as error:
        hint = "" if error.next_step else ". Is the hub running? Set its URL with --hub"
        click.echo(f"zmon: {' '.join(unseen(hub_error=f'{error}{hint}'))}", err=True)
        sys.exit(UNKNOWN)
    shown = [job for job in jobs.jobs if job_id in (None, job.job_id)]
    if job_id and not shown and not findings.findings:
        click.echo(f"zmon: {_unknown_job(job_id, client.url, jobs.blind)}", err=True)
        sys.exit(UNKNOWN)
    if as_json:
        agents = {"num_agents": jobs.num_agents, "num_agents_answering": jobs.num_agents_answering}
        about_hub = {"schema": 1, "blind": jobs.blind, "as_of": jobs.as_of, **agents}
        answer = {**about_hub, "jobs": shown, "findings": findings.findings, **({"plan": plan} if plan else {})}
        click.echo(msgspec.json.encode(answer).decode())
    else:
        console = Console(markup=False)
        console.print(status_table(shown, findings.findings, jobs.blind, time.time(), jobs.as_of))
        if jobs.num_agents_answering < jobs.num_agents:
            line = f"{jobs.num_agents_answering} of {jobs.num_agents} agents answer the hub: zmon doctor says why"
            console.print(line, style="yellow")
        if job_id:
            pages = [Text(f"run page: {job.run_page}") for job in shown if job.run_page]
            console.print(*pages, *map(time_table, shown), *([plan_table(plan)] if plan else []), sep="\n")
    sys.exit(UNKNOWN if jobs.blind else 1 if findings.findings or any(job.ended for job in shown) else 0)


def _unknown_job(job_id: str, url: str, is_blind: bool) -> ZmonError:
    what = f"cannot show job {job_id}"
    if is_blind:
        return ZmonError(what, f"no agent answers the hub at {url}", "Is `zmon agent` running? See `zmon doctor`")
    return ZmonError(
        what,
        f"the hub at {url} does not know it. No agent reports its ranks, and no fault ended it within the last day",
        "`zmon status` lists all jobs, `zmon incident` shows earlier incidents",
    )
