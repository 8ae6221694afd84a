"""What each step of one run took, all ranks together, and where that went: columns as long as the run.

Pure. Seconds. The causes of a step sum to it (zmon/job/efficiency.py), so what they changed by sums to what it changed
by.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from statistics import median_low

from zmon.job.efficiency import step_causes
from zmon.job.history import align
from zmon.offline.analyze.rows import StepTable
from zmon.schema.aligned_step import handed_in


@dataclass(frozen=True)
class Series:
    """The steps of one start of a job of which every rank is known, oldest first."""

    name: str  # as the person called it
    job_id: str
    attempt: int
    world_size: int
    steps: Sequence[int]  # their numbers
    seconds: Sequence[float]
    causes: Mapping[str, Sequence[float]]  # seconds; those that nobody could have told are absent
    samples: Sequence[int] | None  # of all ranks; None: some rank does not tell them
    gauges: dict[str, Sequence[tuple[int, float]]] = field(default_factory=dict)  # samples (else steps) so far, value
    caveats: Sequence[str] = field(default=())
    sent_bytes: Mapping[str, float] = field(default_factory=dict)  # by op, that a rank hands in in a step

    @property
    def samples_a_step(self) -> int | None:
        """The middle one."""
        return median_low(self.samples) if self.samples else None


def series(name: str, log: StepTable) -> Series:
    """Of several starts the one with the most steps that are whole."""
    starts = [_start(name, log, attempt) for attempt in log.attempts()]
    longest = max(starts, key=lambda one: (len(one.steps), one.attempt))
    caveats = [f"{count:,} rows left out: {reason}" for reason, count in log.left_out.most_common(3)]
    if log.every > 1:
        caveats.append(f"a long log: every {log.every}th step was read")
    if len(starts) > 1:
        caveats.append(f"it was started {len(starts)} times: compared is attempt {longest.attempt}, the longest")
    return Series(**{**vars(longest), "caveats": (*caveats, *longest.caveats)})


def _start(name: str, log: StepTable, attempt: int) -> Series:
    ranks = {rank: steps for (number, rank), steps in log.records.items() if number == attempt}
    world_size = max(ranks) + 1
    absent = world_size - len(ranks)
    whole = sorted(set.intersection(*(set(steps) for steps in ranks.values()))) if not absent else []
    aligned = [align(step, [ranks[rank][step] for rank in range(world_size)]) for step in whole]
    known = [step_causes(step) for step in aligned] if log.blames else []
    causes = {cause: [of.get(cause, 0.0) for of in known] for cause in sorted({c for of in known for c in of})}
    samples = [[n for n in step.samples if n is not None] for step in aligned]
    told = [sum(of) for of in samples] if all(len(of) == world_size for of in samples) else None
    caveats = []
    if absent:
        caveats.append(
            f"{len(ranks)} of {world_size} ranks are in it, so no step is whole: it takes the logs of all nodes"
        )
    elif not log.blames:
        caveats.append("it has no exposed_… columns and no phases: where its time went is unknown")
    return Series(
        name=name,
        job_id=log.job_id,
        attempt=attempt,
        world_size=world_size,
        steps=whole,
        seconds=[step.seconds for step in aligned],
        causes=causes,
        samples=told,
        sent_bytes=handed_in(aligned),
        gauges=_gauges(log, attempt, whole, _so_far(whole, told)),
        caveats=caveats,
    )


def _so_far(whole: Sequence[int], samples: Sequence[int] | None) -> Sequence[int]:
    """Samples up to each step, a step that is not there taken for as large as the next one; steps, if none are told."""
    if not samples or not any(samples):
        return whole
    each = (number * (step - before) for number, step, before in zip(samples, whole, (0, *whole), strict=False))
    return [*accumulate(each)]


def _gauges(
    log: StepTable, attempt: int, whole: Sequence[int], so_far: Sequence[int]
) -> dict[str, Sequence[tuple[int, float]]]:
    """What the job reported of itself, such as its loss, as the lowest rank says that tells it."""
    gauges: dict[str, Sequence[tuple[int, float]]] = {}
    for key in sorted(key for key in log.reported if key[0] == attempt):
        told = log.reported[key]
        for name in sorted({name for values in told.values() for name in values} - gauges.keys()):
            steps = [n for n in sorted(told) if name in told[n] and whole and n >= whole[0]]
            gauges[name] = [(so_far[bisect_right(whole, n) - 1], told[n][name]) for n in steps]
    return {name: points for name, points in gauges.items() if points}
