"""Select the ranks that /metrics shows, of a limited number of jobs. This module is pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from zmon.job.timeline import newest_attempt
from zmon.schema.rank import RankState

EXPORT_AFTER_END_SECONDS = 30.0  # how long the series of a rank outlive it
# A node of 8 GPUs that are split into 7 instances each has 56 jobs. A job id that changes with every start would
# otherwise give each page the series of all jobs of the last half minute.
MAX_JOBS = 64


class ExportedRanks(NamedTuple):
    """The ranks of a page, and the number of jobs that it leaves out."""

    ranks: tuple[RankState, ...]
    num_left_out: int


def exported_ranks(ranks: Iterable[RankState], max_jobs: int = MAX_JOBS) -> ExportedRanks:
    """Return the ranks of the newest attempt of each job, until shortly after their end.

    If there are more than `max_jobs` jobs, those with a living rank stay, then those with the most ranks on this node,
    then the newest ones.
    """
    by_job: defaultdict[str, list[RankState]] = defaultdict(list)
    for state in ranks:
        by_job[state.job_id].append(state)
    shown = {job_id: launch for job_id, states in by_job.items() if (launch := _recent(states))}
    most_important = sorted(shown, key=lambda job_id: (_importance(shown[job_id]), job_id), reverse=True)[:max_jobs]
    return ExportedRanks(
        tuple(state for job_id, launch in shown.items() if job_id in most_important for state in launch),
        len(shown) - len(most_important),
    )


def _recent(states: Iterable[RankState]) -> tuple[RankState, ...]:
    return tuple(state for state in newest_attempt(states) if (state.gone_seconds or 0.0) < EXPORT_AFTER_END_SECONDS)


def _importance(launch: Sequence[RankState]) -> tuple[bool, int, float]:
    return any(state.alive for state in launch), len(launch), max(state.start for state in launch)
