"""`zmon status`: show the state of the jobs and their findings."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import Sequence

import click
from rich.console import Group, RenderableType
from rich.text import Text

from zmon.cli.completion import job_ids
from zmon.cli.options import HubOptions, hub_options, json_option
from zmon.cli.render import show
from zmon.cli.render.plan import plan_table
from zmon.cli.render.status import status_table
from zmon.cli.render.time_account import time_table
from zmon.client import AsyncHub
from zmon.errors import NotServed, Unreachable, ZmonError
from zmon.schema.api import JobList, PlanTable
from zmon.schema.finding import Finding
from zmon.schema.job import JobView, unseen

_FINDINGS, _UNKNOWN = 1, 3  # exit codes, as the help lists them


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
    try:
        answer, findings, plan = asyncio.run(_ask(client, job_id))
    except Unreachable as error:
        hint = "" if error.next_step else ". Is the hub running? Set its URL with --hub"
        click.echo(f"zmon: {' '.join(unseen(hub_error=f'{error}{hint}'))}", err=True)
        sys.exit(_UNKNOWN)
    jobs = [job for job in answer.jobs if job_id in (None, job.job_id)]
    if job_id and not jobs and not findings:
        click.echo(f"zmon: {_unknown_job(job_id, client.url, answer.blind)}", err=True)
        sys.exit(_UNKNOWN)
    document = _document(answer, jobs, findings, plan)
    show(as_json, document, _report(answer, jobs, findings, plan, in_detail=bool(job_id)))
    if answer.blind:
        sys.exit(_UNKNOWN)
    sys.exit(_FINDINGS if findings or any(job.ended for job in jobs) else 0)


async def _ask(client: AsyncHub, job_id: str | None) -> tuple[JobList, Sequence[Finding], PlanTable | None]:
    """Return all jobs, the open findings, and the plan of the job with this ID."""
    async with client:
        jobs = await client.jobs()
        findings = (await client.findings(job_id, active=True)).findings
        plan = None
        if job_id:
            with contextlib.suppress(NotServed):  # the hub knows no ranks of it
                plan = await client.plan(job_id)
        return jobs, findings, plan


def _document(
    answer: JobList, jobs: Sequence[JobView], findings: Sequence[Finding], plan: PlanTable | None
) -> dict[str, object]:
    """Return what `--json` prints."""
    agents = {"num_agents": answer.num_agents, "num_agents_answering": answer.num_agents_answering}
    about_hub = {"schema": 1, "blind": answer.blind, "as_of": answer.as_of, **agents}
    return {**about_hub, "jobs": jobs, "findings": findings, **({"plan": plan} if plan else {})}


def _report(
    answer: JobList, jobs: Sequence[JobView], findings: Sequence[Finding], plan: PlanTable | None, in_detail: bool
) -> RenderableType:
    """Return the findings, these jobs, and how many agents answer if some do not.

    `in_detail`: add the run page, the time account and the plan of each job.
    """
    parts = [status_table(jobs, findings, answer.blind, time.time(), answer.as_of)]
    if answer.num_agents_answering < answer.num_agents:
        line = f"{answer.num_agents_answering} of {answer.num_agents} agents answer the hub: zmon doctor says why"
        parts.append(Text(line, style="yellow"))
    if in_detail:
        parts += [Text(f"run page: {job.run_page}") for job in jobs if job.run_page]
        parts += [*map(time_table, jobs), *([plan_table(plan)] if plan else [])]
    return Group(*parts)


def _unknown_job(job_id: str, url: str, is_blind: bool) -> ZmonError:
    """Return why the hub cannot show a job."""
    what = f"cannot show job {job_id}"
    if is_blind:
        return ZmonError(what, f"no agent answers the hub at {url}", "Is `zmon agent` running? See `zmon doctor`")
    return ZmonError(
        what,
        f"the hub at {url} does not know it. No agent reports its ranks, and no fault ended it within the last day",
        "`zmon status` lists all jobs, `zmon incident` shows earlier incidents",
    )
