"""The collection of data for a capsule from the agents: the last steps of ranks, kernel messages, and clocks.

The agents read the steps from the boxes; no rank is interrupted.
"""

from __future__ import annotations

import asyncio
import contextlib
import platform
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import aiohttp

import zmon
from zmon.errors import Unreachable
from zmon.format import listed
from zmon.hub.agent_link import AgentLink, links_of
from zmon.hub.config import HubConfig
from zmon.hub.incidents import moments, steps
from zmon.hub.incidents.moments import HostClock
from zmon.schema.api import SnapshotRequest, endpoints
from zmon.schema.api.agent import AgentReport
from zmon.schema.finding import Finding
from zmon.schema.incident import TimelineEvent
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.rank import RankState
from zmon.web import client

_MAX_NAMED = 8  # hosts or ranks that one line names


@dataclass
class Collected:
    """The collected data."""

    snapshot: Snapshot  # of the job, updated with how its dead ranks ended
    versions: dict[str, str]  # of zmon and of the system, by name
    runs: list[steps.LastSteps] = field(default_factory=list)
    moments: list[TimelineEvent] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)  # a line for each part that is missing


@dataclass(frozen=True)
class _Answer:
    """The report of an agent, and the seconds by which the clock of its host is ahead of the hub's."""

    report: AgentReport
    ahead_seconds: float


async def collect(
    session: aiohttp.ClientSession, config: HubConfig, links: Sequence[AgentLink], snapshot: Snapshot, finding: Finding
) -> Collected:
    """Collect the data of the most important ranks, and list what did not arrive within `evidence_seconds`."""
    chosen_ranks = steps.choose_ranks(snapshot, finding)
    hosts = list(dict.fromkeys([*(r.host for r in chosen_ranks), *finding.hosts]))
    links_by_uid = links_of(links, chosen_ranks)
    # The job's id at each agent that is asked. Agents without a chosen rank are asked for the kernel log of their host.
    job_ids = {link: finding.job_id for link in links if link.report and link.report.host in hosts}
    job_ids |= {owner.link: owner.job_id for owner in links_by_uid.values()}
    answers = await _ask(session, config, job_ids)
    snapshot = _with_exits(snapshot, [answer.report for answer in answers.values()])
    collected = Collected(snapshot, _versions(links, hosts))
    for link in job_ids:
        collected.moments += _kernel_moments(link, answers.get(link), finding.onset)
    culprits = [r for r in snapshot.reported_ranks if r.rank in finding.ranks]
    collected.moments += moments.rank_moments(snapshot, culprits)
    reports = {uid: answers[owner.link].report for uid, owner in links_by_uid.items() if owner.link in answers}
    collected.runs = [run for r in chosen_ranks if (run := _steps_of(r, reports.get(r.run_uid))) is not None]
    silent = {*hosts} - {answer.report.host for answer in answers.values()}
    silent |= {r.host for r in chosen_ranks if r.run_uid not in reports}
    collected.left_out = [*_lines_of_missing_steps(snapshot, chosen_ranks, collected.runs, silent)]
    return collected


async def _ask(
    session: aiohttp.ClientSession, config: HubConfig, job_ids: Mapping[AgentLink, str]
) -> dict[AgentLink, _Answer]:
    """Ask each agent for the last steps of the job with this id; an agent that does not answer in time is left out."""
    answers: dict[AgentLink, _Answer] = {}
    limit = asyncio.Semaphore(config.max_requests)

    async def ask(link: AgentLink, job_id: str) -> None:
        async with limit:
            begin = time.time()
            with contextlib.suppress(Unreachable):
                request = SnapshotRequest(since=0, job_id=job_id, last=steps.MAX_STEPS)
                report = await client.ask(session, link.url, endpoints.SNAPSHOT, request, config.evidence_seconds)
                answers[link] = _Answer(report, report.time - (begin + time.time()) / 2)

    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(config.evidence_seconds):
            await asyncio.gather(*(ask(link, job_id) for link, job_id in job_ids.items()))
    return answers


def _kernel_moments(link: AgentLink, answer: _Answer | None, onset: float) -> Iterator[TimelineEvent]:
    """Yield the kernel messages of a host; without an answer those of the last report, at uncorrected times."""
    report = answer.report if answer else link.report
    if report is not None and report.sample.kernel is not None:
        clock = HostClock(report.host, answer.ahead_seconds if answer else None)
        yield from moments.kernel_events(report.sample.kernel.events, clock, onset)


def _with_exits(snapshot: Snapshot, reports: Iterable[AgentReport]) -> Snapshot:
    """Return the snapshot with the exit status and last words of dead ranks from newer reports.

    Both are known once the launcher has reaped a rank. All other values stay as they were when the finding opened.
    """
    newest = {r.run_uid: r for report in reports for r in report.ranks}

    def with_exit(r: RankState) -> RankState:
        later = newest.get(r.run_uid)
        if r.alive or later is None:
            return r
        words, age = later.last_words, later.last_words_seconds
        if words is not None and age is not None and r.last_words_seconds is None:
            r = replace(r, last_words_seconds=max(age - (time.time() - snapshot.time), 0.0))
        return replace(r, exit_status=later.exit_status, last_words=words)

    return replace(snapshot, ranks=tuple(map(with_exit, snapshot.ranks)))


def _steps_of(state: RankState, report: AgentReport | None) -> steps.LastSteps | None:
    """Return a rank's last steps, or None if its agent reports none or already reports a newer launch of it."""
    if report is None or report.monotonic is None:
        return None
    parts = (part.of_rank(state.run_uid) for job_steps in report.steps.values() for part in job_steps)
    rank_steps = next((part for part in parts if part.num_rows), None)
    return None if rank_steps is None else steps.last_steps(state, rank_steps, report.time - report.monotonic)


def _lines_of_missing_steps(
    snapshot: Snapshot, chosen_ranks: Sequence[RankState], runs: Sequence[steps.LastSteps], silent: set[str]
) -> list[str]:
    """Return a line for each group of ranks whose steps are missing, with the reason."""
    lines = []
    if len(snapshot.reported_ranks) > len(chosen_ranks):
        num_others = len(snapshot.reported_ranks) - len(chosen_ranks)
        stored = "only those of culprits, of ranks near them and of a sample are stored"
        lines.append(f"the steps of {num_others} ranks: {stored}")
    if silent:
        lines.append(f"the steps of the ranks on {listed(sorted(silent), _MAX_NAMED)}: the agent there did not answer")
    present = {run.state.rank for run in runs}
    absent = [r.rank for r in chosen_ranks if r.rank not in present and r.host not in silent]
    if absent:
        ranks = listed([*map(str, sorted(absent))], _MAX_NAMED)
        lines.append(f"the steps of rank {ranks}: the agent has none of that time")
    return lines


def _versions(links: Sequence[AgentLink], hosts: Sequence[str]) -> dict[str, str]:
    agents = {f"agent on {link.report.host}": link.report.version for link in links if link.report}
    agent_versions = {name: agents[name] for host in hosts[:_MAX_NAMED] if (name := f"agent on {host}") in agents}
    return {"hub": zmon.__version__, **agent_versions, "Python": platform.python_version(), "Linux": platform.release()}
