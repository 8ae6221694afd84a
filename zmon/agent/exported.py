"""Which ranks does /metrics show? Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from zmon.job.timeline import newest_attempt
from zmon.schema.rank import RankState

EXPORT_AFTER_END_SECONDS = 30.0  # how long a rank's series outlive it


def exported(ranks: Iterable[RankState]) -> Iterator[RankState]:
    """Of each job the newest attempt, until a little after its end."""
    by_job: defaultdict[str, list[RankState]] = defaultdict(list)
    for state in ranks:
        by_job[state.job_id].append(state)
    for states in by_job.values():
        for state in newest_attempt(states):
            if state.gone_seconds is None or state.gone_seconds < EXPORT_AFTER_END_SECONDS:
                yield state
