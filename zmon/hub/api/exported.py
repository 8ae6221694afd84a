"""Select the jobs that the hub's /metrics shows. This module is pure."""

from __future__ import annotations

from collections.abc import Sequence

from zmon.job.restarts import launch_began
from zmon.schema.job_snapshot import Snapshot

# A job has about a hundred series. A job id that changes with every start would otherwise give the page all jobs that
# agents still know, which are those of the last 15 minutes.
MAX_JOBS = 200


def exported_jobs(snapshots: Sequence[Snapshot], max_jobs: int = MAX_JOBS) -> frozenset[str]:
    """Return the ids of the jobs that have series: those with a living rank, then the largest, then the newest."""
    if len(snapshots) > max_jobs:
        snapshots = sorted(snapshots, key=_importance, reverse=True)[:max_jobs]
    return frozenset(snapshot.job_id for snapshot in snapshots)


def _importance(snapshot: Snapshot) -> tuple[bool, int, float, str]:
    ranks = snapshot.reported_ranks
    return any(rank.alive for rank in ranks), len(ranks), launch_began(snapshot), snapshot.job_id
