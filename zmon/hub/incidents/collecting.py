"""What an incident's capsule is made of, asked of the agents: the ranks' last steps, the hosts' kernels and clocks.

No rank is asked anything: steps lie in the boxes, which the agents read.
"""

from __future__ import annotations

import asyncio
import contextlib
import platform
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import aiohttp

import zmon
from zmon.errors import Unreachable
from zmon.hub.agent_link import AgentLink
from zmon.hub.config import HubConfig
from zmon.hub.incidents import moments, steps
from zmon.hub.incidents.moments import HostClock
from zmon.schema.agent import AgentReport
from zmon.schema.api import SnapshotRequest, endpoints
from zmon.schema.finding import Finding
from zmon.schema.incident import Moment
from zmon.schema.rank import RankState
from zmon.schema.snapshot import Snapshot
from zmon.web import client

_MAX_NAMED = 8


@dataclass
class Collected:
    """What came in, and the job with what is known now of how its dead ranks ended."""

    snapshot: Snapshot
    runs: list[steps.Kept] = field(default_factory=list)
    moments: list[Moment] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)


async def collect(
    session: aiohttp.ClientSession,
    config: HubConfig,
    links: Sequence[AgentLink],
    snapshot: Snapshot,
    finding: Finding,
) -> Collected:
    """Of the ranks that matter most; takes `evidence_seconds` at most, and says what did not come in time."""
    wanted = steps.chosen(snapshot, finding)
    hosts = list(dict.fromkeys([*(r.host for r in wanted), *finding.hosts]))
    asked = {link.report.host: link for link in links if link.report and link.report.host in hosts}
    told: dict[str, AgentReport] = {}
    clocks: dict[str, HostClock] = {}
    room = asyncio.Semaphore(config.max_asked)

    async def ask(host: str, link: AgentLink) -> None:
        async with room:
            begin = time.time()
            with contextlib.suppress(Unreachable):
                request = SnapshotRequest(since=0, job_id=finding.job_id, last=steps.STEPS)
                told[host] = await client.ask(session, link.url, endpoints.SNAPSHOT, request, config.evidence_seconds)
                clocks[host] = HostClock(host, told[host].time - (begin + time.time()) / 2)

    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(config.evidence_seconds):
            await asyncio.gather(*(ask(host, link) for host, link in asked.items()))

    snapshot = _after_all(snapshot, told.values())
    found = Collected(snapshot, versions=_versions(links, hosts))
    for host, link in asked.items():
        report = told.get(host) or link.report  # what it said last; its clock is not known then
        kernel = report.sample.kernel if report else None
        clock = clocks.setdefault(host, HostClock(host))
        found.moments += moments.kernel_events(kernel.events if kernel else (), clock, finding.onset)
    found.moments += moments.last_words([r for r in snapshot.known if r.rank in finding.ranks], clocks)
    found.runs = [run for r in wanted if (run := _run(r, told.get(r.host))) is not None]
    found.left_out = [*_missing(snapshot, wanted, found.runs, set(hosts) - set(told))]
    return found


def _after_all(snapshot: Snapshot, told: Iterable[AgentReport]) -> Snapshot:
    """How a rank ended is known once its launcher has reaped it: all else stays as it was when the finding was made."""
    now = {r.run_uid: r for report in told for r in report.ranks}

    def ended(r: RankState) -> RankState:
        later = now.get(r.run_uid)
        if r.alive or later is None:
            return r
        return replace(r, exit_status=later.exit_status, last_words=later.last_words)

    return replace(snapshot, ranks=tuple(map(ended, snapshot.ranks)))


def _run(state: RankState, report: AgentReport | None) -> steps.Kept | None:
    """A rank's last steps; its agent may have told of another start of it meanwhile."""
    if report is None or report.monotonic is None:
        return None
    records = report.records.get(state.job_id, {}).get(state.run_uid, ())
    return steps.kept(state, records, report.time - report.monotonic) if records else None


def _missing(
    snapshot: Snapshot, wanted: Sequence[RankState], runs: Sequence[steps.Kept], silent: set[str]
) -> list[str]:
    lines = []
    if len(snapshot.known) > len(wanted):
        others = len(snapshot.known) - len(wanted)
        lines.append(f"the steps of {others} ranks: kept are the culprits', those of ranks near, and of some others")
    if silent:
        lines.append(f"the steps of the ranks on {_few(sorted(silent))}: the agent there did not answer")
    there = {run.state.rank for run in runs}
    without = [r.rank for r in wanted if r.rank not in there and r.host not in silent]
    if without:
        lines.append(f"the steps of rank {_few(map(str, sorted(without)))}: nobody knows of any at that time")
    return lines


def _few(names: Iterable[str]) -> str:
    named = [*names]
    more = f" and {len(named) - _MAX_NAMED} more" if len(named) > _MAX_NAMED else ""
    return ", ".join(named[:_MAX_NAMED]) + more


def _versions(links: Sequence[AgentLink], hosts: Sequence[str]) -> dict[str, str]:
    agents = {f"agent on {link.report.host}": link.report.version for link in links if link.report}
    named = {name: agents[name] for host in hosts[:_MAX_NAMED] if (name := f"agent on {host}") in agents}
    return {"hub": zmon.__version__, **named, "Python": platform.python_version(), "Linux": platform.release()}
