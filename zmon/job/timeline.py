"""Which ranks belong together: what the agents say, lined up into one Snapshot per job.

Pure. A host's clock is never compared with another's: ages are durations measured on the host itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from zmon.schema.agent import AgentReport, AgentStatus
from zmon.schema.host import HostWindow
from zmon.schema.rank import RankState
from zmon.schema.snapshot import Snapshot

NEWS_SECONDS = 60.0  # how long a rank's death is news, and its host of concern to the job
TOGETHER_SECONDS = 60.0  # ranks of one start appear within the time of its rendezvous


def newest_attempt(ranks: Iterable[RankState]) -> tuple[RankState, ...]:
    """The ranks of the newest start of one job, by rank.

    The newest start wins, not the highest attempt number, which falls back to 0 when a launcher is started
    again. What an earlier launch left on a host under the same attempt number is dead, has another launcher and was
    started long before (starts are compared on one host only).
    """
    by_start = sorted(ranks, key=lambda r: r.start)
    if not by_start:
        return ()
    newest = by_start[-1]
    alike = newest.attempt, newest.world_size  # an earlier launch on another number of ranks may have that attempt too
    candidates = [r for r in by_start if (r.attempt, r.world_size) == alike]
    newest_here = {r.host: r for r in candidates}  # the last one of each host
    chosen = {r.rank: r for r in candidates if not _left_behind(r, newest_here[r.host])}
    return tuple(chosen[rank] for rank in sorted(chosen))


def _left_behind(state: RankState, newest: RankState) -> bool:
    long_before = newest.start - state.start > TOGETHER_SECONDS
    return not state.alive and state.launcher != newest.launcher and long_before


def snapshots(
    reports: Sequence[AgentReport],
    silent: Sequence[AgentReport],
    agents: Sequence[AgentStatus],
    time: float,
    hardware: Sequence[HostWindow] = (),
) -> tuple[Snapshot, ...]:
    """One Snapshot per job that any agent reports, by job id; `time` is the hub's unix time.

    `silent` are the last reports of agents that do not answer now: their ranks are known, but not watched. `hardware`
    is of agents that do answer.
    """
    jobs: defaultdict[str, list[RankState]] = defaultdict(list)
    for report in (*reports, *silent):
        for state in report.ranks:
            jobs[state.job_id].append(state)
    unwatched = {state.run_uid for report in silent for state in report.ranks}
    unwatched -= {state.run_uid for report in reports for state in report.ranks}
    return tuple(_snapshot(job_id, jobs[job_id], unwatched, agents, time, hardware) for job_id in sorted(jobs))


def _snapshot(
    job_id: str,
    states: Sequence[RankState],
    unwatched: set[str],
    agents: Sequence[AgentStatus],
    time: float,
    hardware: Sequence[HostWindow],
) -> Snapshot:
    known = newest_attempt(states)
    seen = {r.rank for r in known}
    hosts = {r.host for r in known if r.activity != "done" and (r.gone_seconds or 0.0) < NEWS_SECONDS}
    return Snapshot(
        job_id=job_id,
        time=time,
        attempt=known[0].attempt,
        world_size=known[0].world_size,
        ranks=tuple(r for r in known if r.run_uid not in unwatched),
        missing=tuple(rank for rank in range(known[0].world_size) if rank not in seen),
        unwatched=tuple(r for r in known if r.run_uid in unwatched),
        agents=tuple(agents),
        hardware=tuple(window for window in hardware if window.host in hosts),
    )
