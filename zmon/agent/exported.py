"""Select the ranks that /metrics shows. This module is pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from zmon.job.timeline import newest_attempt
from zmon.schema.rank import RankState

EXPORT_AFTER_END_SECONDS = 30.0  # how long the series of a rank outlive it


def exported(ranks: Iterable[RankState]) -> Iterator[RankState]:
    """Yield the ranks of the newest attempt of each job, until shortly after their end."""
    by_job: defaultdict[str, list[RankState]] = defaultdict(list)
    for state in ranks:
        by_job[state.job_id].append(state)
    for states in by_job.values():
        for state in newest_attempt(states):
            if state.gone_seconds is None or state.gone_seconds < EXPORT_AFTER_END_SECONDS:
                yield state
