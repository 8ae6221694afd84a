"""Is it slower, or is that chance?

Pure. Steps of a run are alike for a while: clocks, neighbours and data drift, so thousands of steps are no thousands of
independent trials, and a test that takes them for such finds a change in any two runs. So both runs are cut into the
same number of blocks, side by side by step number, and the blocks' differences are judged: what both runs do at the
same step, a schedule or the same data, cancels. How far their mean can be off by chance is told from their slow swings
alone, the first cosines of their series, with as many degrees of freedom as those (Lazarus, Lewis, Stock & Watson, HAR
Inference: Recommendations for Practice, J. Bus. Econ. Stat. 36, 2018). A bootstrap over steps or blocks needs the
length of a block to be right, which no log says, and gives another answer each time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, cos, pi, sqrt
from statistics import NormalDist, fmean

from zmon.offline.compare.series import Series
from zmon.schema.unknown import Unknown
from zmon.stats import student

BLOCKS = 40
LEAST_BLOCK = 5  # steps
LEAST_BLOCKS = 12
TRIMMED = 0.1  # of a block's steps at either end of their lengths: pauses, evaluations, checkpoints
SWINGS = 12  # cosines; a third of the blocks, where there are few: more are quicker than what drifts
CERTAINTY = 0.99
WORTH_TELLING = 0.015  # of the step: two runs of the same code differ by up to 1 % (throughput in MLPerf's logs)
PART_WORTH_TELLING = 0.003  # of a step that is known to have changed
MOST_HALF_WIDTH = 0.03  # beyond it "alike" says too little

STEP_SECONDS, SAMPLES, PER_RANK = "step_seconds", "samples_per_second", "samples_per_second_per_rank"

Column = Callable[[Series, Sequence[int]], float]  # a number for these steps of that run


@dataclass(frozen=True)
class Change:
    """One quantity in both runs."""

    name: str
    unit: str  # "s" a step, samples "/s", or none
    before: float | None  # None: there is nothing to know it from
    after: float | None
    change: float | None  # of `before`; of a cause: of the step that it is part of
    half_width: float | None  # of the interval around `change`; None: too few steps to know
    verdict: str  # "slower", "faster", "alike" or "unknown"; of what is no time "higher" or "lower"
    reason: str = ""  # of "unknown"


def compare(before: Series, after: Series) -> list[Change]:
    """The step first, then what its samples came to, then where its time went, the largest change first."""
    blocks = _blocks(before, after)
    if isinstance(blocks, Unknown):
        ours, theirs = (fmean(run.seconds) if run.seconds else None for run in (before, after))
        change = theirs / ours - 1 if ours and theirs else None
        return [Change(STEP_SECONDS, "s", ours, theirs, change, None, "unknown", blocks.reason)]
    step = _judged(STEP_SECONDS, before, after, blocks, _seconds, _seconds)
    rates = []
    if sum(before.samples or ()) and sum(after.samples or ()):
        rates.append(_judged(SAMPLES, before, after, blocks, _rate, _rate, more_is_slower=False))
        if before.world_size != after.world_size:
            rates.append(_judged(PER_RANK, before, after, blocks, _rate_a_rank, _rate_a_rank, more_is_slower=False))
    least = PART_WORTH_TELLING if step.verdict in ("slower", "faster") else WORTH_TELLING
    causes = [
        _judged(cause, before, after, blocks, _of(cause), _seconds, least)
        for cause in sorted({*before.causes, *after.causes})
        if before.causes and after.causes
    ]
    return [step, *rates, *sorted(causes, key=lambda one: -abs(one.change or 0.0))]


# -- columns -------------------------------------------------------------------------------------------


def _seconds(run: Series, steps: Sequence[int]) -> float:
    return fmean(run.seconds[at] for at in steps)


def _of(cause: str) -> Column:
    def seconds(run: Series, steps: Sequence[int]) -> float:
        return fmean(run.causes[cause][at] for at in steps) if cause in run.causes else 0.0

    return seconds


def _rate(run: Series, steps: Sequence[int]) -> float:
    samples = run.samples or ()
    return sum(samples[at] for at in steps) / sum(run.seconds[at] for at in steps)


def _rate_a_rank(run: Series, steps: Sequence[int]) -> float:
    return _rate(run, steps) / run.world_size


# -- blocks --------------------------------------------------------------------------------------------

Blocks = list[tuple[list[int], list[int]]]  # of the one run and of the other, as places in their columns


def _blocks(before: Series, after: Series) -> Blocks | Unknown:
    """Side by side; or why there are none."""
    common = set(before.steps) & set(after.steps)
    shorter = min(len(before.steps), len(after.steps))
    if 2 * len(common) >= shorter:
        sides = [[at for at, step in enumerate(run.steps) if step in common] for run in (before, after)]
    else:  # as of two parts of one run
        sides = [[*range(len(run.steps))] for run in (before, after)]
    number = min(BLOCKS, min(map(len, sides)) // LEAST_BLOCK)
    if number < LEAST_BLOCKS:
        return Unknown(f"{shorter} whole steps are too few: chance shows in {LEAST_BLOCKS * LEAST_BLOCK} or more")
    ours, theirs = (
        [typical(run, side[len(side) * n // number : len(side) * (n + 1) // number]) for n in range(number)]
        for run, side in zip((before, after), sides, strict=True)
    )
    return list(zip(ours, theirs, strict=True))


def typical(run: Series, block: Sequence[int]) -> list[int]:
    """Without the longest and the shortest of its steps."""
    by_length = sorted(block, key=lambda at: run.seconds[at])
    out = ceil(TRIMMED * len(block))
    return by_length[out : len(block) - out]


# -- chance --------------------------------------------------------------------------------------------


def _judged(
    name: str,
    before: Series,
    after: Series,
    blocks: Blocks,
    of: Column,
    whole: Column,
    least: float = WORTH_TELLING,
    more_is_slower: bool = True,
) -> Change:
    ours = [of(before, steps) for steps, _ in blocks]
    theirs = [of(after, steps) for _, steps in blocks]
    unit = fmean(whole(before, steps) for steps, _ in blocks)
    told_in = "s" if more_is_slower else "/s"
    if unit == 0:
        return Change(name, told_in, fmean(ours), fmean(theirs), None, None, "unknown", "it is 0 in the first run")
    changes = [(b - a) / unit for a, b in zip(ours, theirs, strict=True)]
    change, half_width = fmean(changes), half_width_of(changes)
    verdict, reason = "alike", ""
    if abs(change) >= least and abs(change) > half_width:
        verdict = "slower" if (change > 0) == more_is_slower else "faster"
    elif half_width > MOST_HALF_WIDTH:
        verdict, reason = "unknown", f"chance alone makes ±{half_width:.1%}: let both run longer"
    return Change(name, told_in, fmean(ours), fmean(theirs), change, half_width, verdict, reason)


def half_width_of(differences: Sequence[float]) -> float:
    """Of the interval around their mean, given one of each block, in their order, `LEAST_BLOCKS` at least."""
    number, swings = len(differences), min(SWINGS, len(differences) // 3)
    mean = fmean(differences)
    heights = [
        sqrt(2 / number) * sum((d - mean) * cos(pi * swing * (at + 0.5) / number) for at, d in enumerate(differences))
        for swing in range(1, swings + 1)
    ]
    deviations = NormalDist().inv_cdf((1 + CERTAINTY) / 2)
    return student(deviations, swings) * sqrt(fmean(height**2 for height in heights) / number)
