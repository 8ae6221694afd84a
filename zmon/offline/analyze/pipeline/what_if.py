"""Computes how much time a pipeline-parallel job would save if some of its workers took as long as usual. Pure.

There is a what-if for each stage, for the slowest workers, and for all workers. A worker is one rank of the trace. The
usual duration of a computing operation is the mean of all operations of its kind: the same work, spread evenly. That of
communication is the median of its kind, because a few late transfers say nothing about the usual one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from statistics import fmean, median

import msgspec

from zmon.offline.analyze.pipeline.schedule import Schedule
from zmon.schema.evidence import ImbalanceEvidence
from zmon.schema.finding import Finding

# The slowest workers are this share of all, at least one, as in Lin et al.: hardware rarely fails on more at a time.
SLOWEST_RATIO = 0.03


@dataclass(frozen=True)
class Worker:
    """The position of one rank of the trace in the job."""

    rank: int  # as the job numbers it
    stage: int
    data_rank: int  # the pipeline that it belongs to

    @property
    def name(self) -> str:
        """The name of the position, as a host name would be written."""
        return f"dp{self.data_rank}-stage{self.stage}"


@dataclass(frozen=True)
class WhatIf:
    """The mean step if the operations of some workers took as long as usual."""

    workers: tuple[int, ...]  # empty: all of them
    stage: int | None  # None: the workers are not those of one stage
    seconds: float
    saved_seconds: float  # below 0: the usual duration is longer than theirs
    explained_ratio: float | None  # share of what evenness of all workers would save; None: it would save nothing


@dataclass(frozen=True)
class PipelineReport:
    """The what-ifs of one trace, as means over its steps."""

    steps: int
    recorded_seconds: float
    seconds: float  # as it is, without the pauses between two operations of a rank
    even: WhatIf
    stages: tuple[WhatIf, ...]
    slowest: WhatIf


def report(schedules: Sequence[Schedule], workers: Mapping[int, Worker], computing: Collection[str]) -> PipelineReport:
    """Return the what-ifs of these steps, at least one. `workers` has every rank of the operations."""
    usual = _usual_seconds(schedules, computing)
    seconds = fmean(schedule.replay(schedule.seconds) for schedule in schedules)
    even_seconds = _replayed(schedules, usual, workers)
    gain = seconds - even_seconds

    def what_if(ranks: Collection[int], stage: int | None) -> WhatIf:
        replayed = _replayed(schedules, usual, ranks) if ranks else even_seconds
        saved = seconds - replayed
        return WhatIf(tuple(sorted(ranks)), stage, replayed, saved, saved / gain if gain > 0 else None)

    stages = sorted({worker.stage for worker in workers.values()})
    by_stage = [(stage, {rank for rank, worker in workers.items() if worker.stage == stage}) for stage in stages]
    return PipelineReport(
        steps=len(schedules),
        recorded_seconds=fmean(_recorded_seconds(schedule) for schedule in schedules),
        seconds=seconds,
        even=what_if((), None),
        stages=tuple(what_if(ranks, stage) for stage, ranks in by_stage),
        slowest=what_if(_slowest_ranks(schedules, usual, computing), None),
    )


def _usual_seconds(schedules: Sequence[Schedule], computing: Collection[str]) -> dict[str, float]:
    """Return the usual duration of each kind of operation."""
    by_kind: defaultdict[str, list[float]] = defaultdict(list)
    for schedule in schedules:
        for operation, seconds in zip(schedule.operations, schedule.seconds, strict=True):
            by_kind[operation.kind].append(seconds)
    return {kind: fmean(times) if kind in computing else median(times) for kind, times in by_kind.items()}


def _slowest_ranks(
    schedules: Sequence[Schedule], usual: Mapping[str, float], computing: Collection[str]
) -> Collection[int]:
    """Return the ranks that compute longest beyond what is usual."""
    beyond: defaultdict[int, float] = defaultdict(float)
    for schedule in schedules:
        for operation, seconds in zip(schedule.operations, schedule.seconds, strict=True):
            beyond[operation.rank] += seconds - usual[operation.kind] if operation.kind in computing else 0.0
    number = max(1, ceil(round(len(beyond) * SLOWEST_RATIO, 2)))  # 100 × 0.03 may be a little more than 3
    return set(sorted(beyond, key=lambda rank: (-beyond[rank], rank))[:number])


def _replayed(schedules: Sequence[Schedule], usual: Mapping[str, float], ranks: Collection[int]) -> float:
    """Return the mean step if the operations of these ranks had their usual durations."""
    return fmean(
        schedule.replay(
            [
                usual[operation.kind] if operation.rank in ranks else seconds
                for operation, seconds in zip(schedule.operations, schedule.seconds, strict=True)
            ]
        )
        for schedule in schedules
    )


def _recorded_seconds(schedule: Schedule) -> float:
    ends = max(operation.end for operation in schedule.operations)
    return ends - min(operation.start for operation in schedule.operations)


def with_replayed_saving(finding: Finding, pipeline: PipelineReport) -> Finding:
    """Return the finding with the what-if of its ranks or of its stage; unchanged if the report has none."""
    what_if = _what_if_of(finding, pipeline)
    if what_if is None:
        return finding
    saved = f"saves {what_if.saved_seconds:.3f} s of {pipeline.seconds:.3f} s per step"
    return replace(
        finding,
        summary=f"{finding.summary}. A replay, in which stages wait for each other as recorded, {saved}",
        evidence=msgspec.structs.replace(
            finding.evidence, step_seconds=pipeline.seconds, saved_seconds=what_if.saved_seconds
        ),
    )


def _what_if_of(finding: Finding, pipeline: PipelineReport) -> WhatIf | None:
    """Return the what-if of the finding's ranks, of its stage, or of all workers; None if the report has none."""
    if finding.ranks:
        return pipeline.slowest if set(finding.ranks) == set(pipeline.slowest.workers) else None
    role = finding.evidence_of(ImbalanceEvidence).role
    stage = next((what_if for what_if in pipeline.stages if str(what_if.stage) == role), None)
    return stage or (pipeline.even if finding.cause.endswith("_jitter") else None)
