"""The steps of one run as columns: the duration of each step, its time categories, its samples.

Pure. Seconds. The time categories of a step sum to its duration (zmon/job/efficiency.py), so their changes sum to the
change of the step.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from statistics import median_low

from zmon.job.alignment import align
from zmon.job.efficiency import step_categories
from zmon.offline.analyze.rows import StepTable
from zmon.schema.aligned_step import sent_bytes_by_op

Points = Sequence[tuple[int, float]]  # samples so far (steps, if no samples are known), and the value of a gauge


@dataclass(frozen=True)
class Series:
    """The complete steps of one launch of a job, oldest first. A step is complete if the log has it for every rank."""

    name: str  # as on the command line
    job_id: str
    attempt: int
    world_size: int
    steps: Sequence[int]  # step numbers
    seconds: Sequence[float]
    causes: Mapping[str, Sequence[float]]  # seconds by time category; empty: unknown
    samples: Sequence[int] | None  # summed over all ranks; None: some rank does not report them
    gauges: Mapping[str, Points] = field(default_factory=dict)
    caveats: Sequence[str] = ()
    sent_bytes: Mapping[str, float] = field(default_factory=dict)  # by op, per rank and step

    @property
    def has_samples(self) -> bool:
        """True if the values of `gauges` are at numbers of samples; False: at numbers of steps."""
        return any(self.samples or ())

    @property
    def samples_per_step(self) -> int | None:
        """The median number of samples per step, or None."""
        return median_low(self.samples) if self.samples else None


def series(name: str, log: StepTable) -> Series:
    """Return the steps of the attempt that has the most complete steps."""
    attempts = [_attempt(name, log, attempt) for attempt in log.attempts()]
    longest = max(attempts, key=lambda run: (len(run.steps), run.attempt))
    caveats = [f"{count:,} rows left out: {reason}" for reason, count in log.left_out.most_common(3)]
    if log.every > 1:
        caveats.append(f"the log is long: only one step of {log.every} was read")
    if len(attempts) > 1:
        caveats.append(f"the job was launched {len(attempts)} times; attempt {longest.attempt} is used, the longest")
    return replace(longest, caveats=(*caveats, *longest.caveats))


def _attempt(name: str, log: StepTable, attempt: int) -> Series:
    """Return the complete steps of one attempt."""
    ranks = log.ranks(attempt)
    world_size = max(ranks) + 1
    missing = world_size - len(ranks)
    by_uid = {steps.run_uids[0]: rank for rank, steps in ranks.items()}
    aligned = [] if missing else align(ranks.values(), by_uid, world_size)
    complete = [step.step for step in aligned]
    accounts = [step_categories(step) for step in aligned] if log.has_exposed_time else []
    categories = sorted({category for account in accounts for category in account})
    causes = {category: [account.get(category, 0.0) for account in accounts] for category in categories}
    by_rank = [[n for n in step.samples if n is not None] for step in aligned]
    are_known = all(len(step_samples) == world_size for step_samples in by_rank)
    samples = [*map(sum, by_rank)] if are_known else None
    caveats = []
    if missing:
        caveats.append(
            f"{len(ranks)} of {world_size} ranks are in the log, so no step is complete: add the logs of all nodes"
        )
    elif not log.has_exposed_time:
        caveats.append("no column tells exposed time from self time: where the time went is unknown")
    return Series(
        name=name,
        job_id=log.job_id,
        attempt=attempt,
        world_size=world_size,
        steps=complete,
        seconds=[step.seconds for step in aligned],
        causes=causes,
        samples=samples,
        sent_bytes=sent_bytes_by_op(aligned),
        gauges=_gauges(log, attempt, complete, _samples_so_far(complete, samples)),
        caveats=caveats,
    )


def _samples_so_far(complete: Sequence[int], samples: Sequence[int] | None) -> Sequence[int]:
    """Return the number of samples up to each step, or the step numbers if no samples are known.

    A missing step counts as many samples as the next complete one.
    """
    if samples is None or not any(samples):
        return complete
    previous = (0, *complete)
    spans = (n * (step - before) for n, step, before in zip(samples, complete, previous, strict=False))
    return [*accumulate(spans)]


def _gauges(log: StepTable, attempt: int, complete: Sequence[int], totals: Sequence[int]) -> dict[str, Points]:
    """Return the values that the job reported, such as its loss, each from the lowest rank that reports it."""
    gauges: dict[str, Points] = {}
    for key in sorted(key for key in log.reported if key[0] == attempt):
        reported = log.reported[key]
        for name in sorted({name for values in reported.values() for name in values} - gauges.keys()):
            steps = [n for n in sorted(reported) if name in reported[n] and complete and n >= complete[0]]
            gauges[name] = [(totals[bisect_right(complete, n) - 1], reported[n][name]) for n in steps]
    return {name: points for name, points in gauges.items() if points}
