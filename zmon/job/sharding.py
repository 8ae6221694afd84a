"""Reduce what an agent says to the jobs of one shard. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from zmon.schema.api.agent import AgentReport, Suspicion
from zmon.schema.shard import Shard


def of_shard(report: AgentReport, shard: Shard) -> AgentReport:
    """Return the report without the ranks of other shards. A job whose id an agent has changed keeps its shard."""
    ranks = tuple(r for r in report.ranks if shard.has(r.wanted_job_id or r.job_id))
    job_ids = {r.job_id for r in ranks}
    return replace(
        report,
        ranks=ranks,
        steps={job_id: steps for job_id, steps in report.steps.items() if job_id in job_ids},
        unread=tuple(rank for rank in report.unread if shard.has(rank.job_id)),
    )


def suspects_of_shard(suspects: Iterable[Suspicion], shard: Shard) -> tuple[Suspicion, ...]:
    """Return the suspects of jobs of the shard."""
    return tuple(suspicion for suspicion in suspects if shard.has(suspicion.job_id))
