"""Make one snapshot per job from the reports of all agents, and decide which ranks form one launch.

Pure. The clocks of two hosts are never compared: ages are durations measured on the host itself, up to its report, and
brought to the hub's present (zmon/job/agent_reports.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from operator import attrgetter

from zmon.job.rank_end import launcher_of
from zmon.job.restarts import seconds_since_start
from zmon.schema.api.agent import AgentReport
from zmon.schema.host import HostWindow
from zmon.schema.job_snapshot import AgentStatus, Snapshot
from zmon.schema.limits import MAX_NAMED_MISSING
from zmon.schema.rank import RankState

NEWS_SECONDS = 60.0  # the host of a dead rank belongs to the job for this time
_TOGETHER_SECONDS = 60.0  # ranks of one launch start within its rendezvous
# A rank was gone before another one began if it was gone for this much longer than the other has run. Their reports may
# be late by different times. A launcher and a rank that import torch take longer to start.
_GONE_BEFORE_SECONDS = 1.5


def newest_attempt(ranks: Iterable[RankState]) -> tuple[RankState, ...]:
    """Return the ranks of the newest launch of one job, by rank.

    The newest launch wins, not the highest attempt number, which falls back to 0 when a launcher is started again.
    Launches are ordered by their ages, because the clocks of their hosts may differ. A launch that ended beside one
    that lives did not replace it: then the living one counts.
    """
    by_age = sorted(ranks, key=seconds_since_start, reverse=True)
    if not by_age:
        return ()
    newest = by_age[-1]
    launch = _launch_of(newest, by_age)
    living = [r for r in by_age if lives(r)]
    if not living or any(r.alive for r in launch):
        return launch
    other = _launch_of(living[-1], by_age)
    return launch if any(was_gone_before(r, newest) for r in other) else other


def _launch_of(newest: RankState, by_age: Sequence[RankState]) -> tuple[RankState, ...]:
    """Return the launch of this rank, by rank; `by_age` are the ranks of the job, the oldest first.

    A rank that an earlier launch left under the same attempt number is dead and has another launcher. That launcher
    has a rank whose number lives elsewhere, or it started long before, or the rank was gone before the newest began.
    """
    # The world size counts as well: an earlier launch with another number of ranks may have the same attempt.
    candidates = [r for r in by_age if (r.attempt, r.world_size) == (newest.attempt, newest.world_size)]
    living = {r.rank: launcher_of(r) for r in candidates if r.alive}
    replaced = {
        launcher_of(r) for r in candidates if not r.alive and living.get(r.rank, launcher_of(r)) != launcher_of(r)
    }
    candidates = [r for r in candidates if r.alive or launcher_of(r) not in replaced]
    newest_of_host = {r.host: r for r in candidates}  # in order of age, so the last rank of a host wins
    launch = [r for r in candidates if not _is_left_over(r, newest_of_host[r.host], candidates[-1])]
    by_rank = {r.rank: r for r in sorted(launch, key=attrgetter("alive"))}  # living ranks last, so that they win
    return tuple(by_rank[rank] for rank in sorted(by_rank))


def _is_left_over(state: RankState, newest_of_host: RankState, newest: RankState) -> bool:
    """Return True if a dead rank belongs to an earlier launch than the newest rank of its host, or than the newest."""
    if state.alive:
        return False
    has_other_launcher = state.launcher != newest_of_host.launcher
    if has_other_launcher and seconds_since_start(state) - seconds_since_start(newest_of_host) > _TOGETHER_SECONDS:
        return True
    # torchrun starts all ranks of a host at once. A rank that has finished a step had met all ranks of its launch.
    if has_other_launcher and state.max_restarts is not None and was_gone_before(state, newest_of_host):
        return True
    return state.launcher != newest.launcher and state.steps > 0 and was_gone_before(state, newest)


def lives(state: RankState) -> bool:
    """Return True if a rank lives, and not only its process, which started another launch and waits for it."""
    return state.alive and not state.superseded


def was_gone_before(state: RankState, newest: RankState) -> bool:
    """Return True if a rank was gone before another one (`newest`) began."""
    return (state.gone_seconds or 0.0) - seconds_since_start(newest) > _GONE_BEFORE_SECONDS


def snapshots(
    reports: Sequence[AgentReport],
    silent: Sequence[AgentReport],
    agents: Sequence[AgentStatus],
    time: float,
    hardware: Sequence[HostWindow] = (),
) -> tuple[Snapshot, ...]:
    """Return one snapshot for each job that an agent reports, by job id; `time` is the hub's unix time.

    `silent` has the last reports of agents that do not answer now: their ranks are known, but unwatched. `hardware`
    comes from the agents that answer.
    """
    jobs: defaultdict[str, list[RankState]] = defaultdict(list)
    for report in (*reports, *silent):
        for state in report.ranks:
            jobs[state.job_id].append(state)
    second_jobs: defaultdict[str, set[str]] = defaultdict(set)
    for state in (state for states in jobs.values() for state in states if state.has_second_id and state.alive):
        second_jobs[state.wanted_job_id].add(state.job_id)
    unwatched = {(state.host, state.run_uid) for report in silent for state in report.ranks}
    if unwatched:
        unwatched -= {(state.host, state.run_uid) for report in reports for state in report.ranks}
    return tuple(
        _snapshot(job_id, jobs[job_id], unwatched, agents, time, hardware, sorted(second_jobs.get(job_id, ())))
        for job_id in sorted(jobs)
    )


def superseded(reports: Sequence[AgentReport], newest: Iterable[Snapshot], time: float) -> Iterator[Snapshot]:
    """Yield a snapshot of each launch that is not the newest of its job, oldest first within a job.

    Its boxes stay for some minutes. A launch may be followed by the next one before the hub looked at its end.
    """
    newest_uids = {r.run_uid for snapshot in newest for r in snapshot.reported_ranks}
    jobs: defaultdict[str, list[RankState]] = defaultdict(list)
    for report in reports:
        for state in report.ranks:
            if state.run_uid not in newest_uids:
                jobs[state.job_id].append(state)
    for job_id, states in sorted(jobs.items()):
        launches = []
        while states:
            launches.append(newest_attempt(states))
            uids = {r.run_uid for r in launches[-1]}
            states = [r for r in states if r.run_uid not in uids]
        for launch in reversed(launches):
            yield _snapshot(job_id, launch, set(), (), time, ())


def _snapshot(
    job_id: str,
    states: Sequence[RankState],
    unwatched: set[tuple[str, str]],  # host and run uid
    agents: Sequence[AgentStatus],
    time: float,
    hardware: Sequence[HostWindow],
    second_jobs: Sequence[str] = (),
) -> Snapshot:
    """Return the snapshot of the newest launch among the ranks of one job."""
    launch = newest_attempt(states)
    reported = {r.rank for r in launch}
    hosts = {r.host for r in launch if r.activity != "done" and (r.gone_seconds or 0.0) < NEWS_SECONDS}
    return Snapshot(
        job_id=job_id,
        time=time,
        attempt=launch[0].attempt,
        world_size=launch[0].world_size,
        ranks=tuple(r for r in launch if (r.host, r.run_uid) not in unwatched) if unwatched else launch,
        # Nothing is as large as the size that a job claims.
        missing=tuple(islice((r for r in range(launch[0].world_size) if r not in reported), MAX_NAMED_MISSING)),
        unwatched=tuple(r for r in launch if (r.host, r.run_uid) in unwatched) if unwatched else (),
        agents=tuple(agents),
        hardware=tuple(window for window in hardware if window.host in hosts),
        second_jobs=tuple(second_jobs),
    )
