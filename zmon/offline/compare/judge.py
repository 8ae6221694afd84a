"""Separates changes between two runs from noise.

Pure. The steps of a run are correlated, because clocks, other programs and the data drift. Thousands of steps are not
thousands of independent trials, and a test that assumes so finds a change between any two runs.

Both runs are cut into the same number of blocks, paired by step number, and the differences of the blocks are tested.
An effect that both runs have at the same step, such as a schedule or the data, cancels out. The confidence interval of
the mean difference is computed from the slow variations alone: from the first cosines of the series of differences,
with as many degrees of freedom as there are cosines (Lazarus, Lewis, Stock & Watson, HAR Inference: Recommendations for
Practice, J. Bus. Econ. Stat. 36, 2018). A bootstrap over steps or blocks would need the right block length, which no
log has, and would give a different answer each time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, cos, pi, sqrt
from statistics import NormalDist, fmean
from typing import Literal

import msgspec

from zmon.offline.compare.series import Series
from zmon.schema.unknown import Unknown
from zmon.stats import student

BLOCKS = 40
MIN_BLOCK_STEPS = 5  # a shorter block has no typical step once its longest and shortest are left out
MIN_BLOCKS = 12  # fewer leave fewer than four cosines
TRIMMED = 0.1  # share of a block's steps that is left out as longest (a pause, an evaluation, a save), and as shortest
COSINES = 12  # at most a third of the blocks. Further cosines would vary faster than the drift does
CERTAINTY = 0.99
MIN_CHANGE = 0.015  # relative; two runs of the same code differ by up to 1 % (throughput in MLPerf's logs)
MIN_CATEGORY_CHANGE = 0.003  # relative to the step, for its time categories, if the step time has changed
MAX_HALF_WIDTH = 0.03  # a wider interval does not justify "alike"

STEP_SECONDS, SAMPLES, PER_RANK = "step_seconds", "samples_per_second", "samples_per_second_per_rank"

Quantity = Callable[[Series, Sequence[int]], float]  # returns the value of a quantity over these steps of a run
Blocks = list[tuple[list[int], list[int]]]  # pairs of one block per run, as indices into their columns
Result = Literal[
    "slower", "faster",  # of the step time, of a rate, or of the seconds of a time category
    "higher", "lower",  # of a gauge
    "alike",  # the change is small, or within the noise
    "unknown",  # `reason` says why
]  # fmt: skip


class Change(msgspec.Struct, frozen=True):
    """The change of one quantity between two runs."""

    name: str
    unit: str  # "s" per step, "/s" for samples, "" for a gauge
    before: float | None = None  # value in the first run; None: unknown
    after: float | None = None  # value in the second run; None: unknown
    change: float | None = None  # relative to `before`; for a time category, relative to the step time of the first run
    half_width: float | None = None  # half the width of the confidence interval of `change`; None: unknown
    result: Result = msgspec.field(name="verdict", default="unknown")
    reason: str = ""  # why it is "unknown"


def compare(before: Series, after: Series) -> list[Change]:
    """Return the changes of the step time, of the throughput, and of the time categories, the largest change first."""
    blocks = _blocks(before, after)
    if isinstance(blocks, Unknown):
        first, second = (fmean(run.seconds) if run.seconds else None for run in (before, after))
        change = second / first - 1 if first and second else None
        return [Change(STEP_SECONDS, "s", first, second, change, reason=blocks.reason)]
    step = _change(STEP_SECONDS, before, after, blocks, _seconds)
    rates = []
    if sum(before.samples or ()) and sum(after.samples or ()):
        rates.append(_change(SAMPLES, before, after, blocks, _rate, more_is_slower=False))
        if before.world_size != after.world_size:
            rates.append(_change(PER_RANK, before, after, blocks, _rate_per_rank, more_is_slower=False))
    min_change = MIN_CATEGORY_CHANGE if step.result in ("slower", "faster") else MIN_CHANGE
    names = sorted({*before.causes, *after.causes}) if before.causes and after.causes else ()
    categories = [
        _change(name, before, after, blocks, _seconds_in(name), min_change, reference=_seconds) for name in names
    ]
    return [step, *rates, *sorted(categories, key=lambda change: -abs(change.change or 0.0))]


def _seconds(run: Series, steps: Sequence[int]) -> float:
    return fmean(run.seconds[i] for i in steps)


def _seconds_in(category: str) -> Quantity:
    def seconds(run: Series, steps: Sequence[int]) -> float:
        return fmean(run.causes[category][i] for i in steps) if category in run.causes else 0.0

    return seconds


def _rate(run: Series, steps: Sequence[int]) -> float:
    samples = run.samples or ()
    return sum(samples[i] for i in steps) / sum(run.seconds[i] for i in steps)


def _rate_per_rank(run: Series, steps: Sequence[int]) -> float:
    return _rate(run, steps) / run.world_size


def _blocks(before: Series, after: Series) -> Blocks | Unknown:
    """Return the paired blocks of both runs, or why there are none."""
    common = set(before.steps) & set(after.steps)
    shorter = min(len(before.steps), len(after.steps))
    if 2 * len(common) >= shorter:
        sides = [[i for i, step in enumerate(run.steps) if step in common] for run in (before, after)]
    else:  # the step numbers differ, as in two parts of one run: pair by position
        sides = [[*range(len(run.steps))] for run in (before, after)]
    num_blocks = min(BLOCKS, min(map(len, sides)) // MIN_BLOCK_STEPS)
    if num_blocks < MIN_BLOCKS:
        usable = min(map(len, sides))
        kind = "complete" if usable == shorter else "common"
        return Unknown(f"{usable} {kind} steps are too few: at least {MIN_BLOCKS * MIN_BLOCK_STEPS} are needed")
    first, second = (
        [trim(run, side[len(side) * n // num_blocks : len(side) * (n + 1) // num_blocks]) for n in range(num_blocks)]
        for run, side in zip((before, after), sides, strict=True)
    )
    return list(zip(first, second, strict=True))


def trim(run: Series, block: Sequence[int]) -> list[int]:
    """Return the block without its longest and its shortest steps."""
    by_duration = sorted(block, key=lambda i: run.seconds[i])
    num_trimmed = ceil(TRIMMED * len(block))
    return by_duration[num_trimmed : len(block) - num_trimmed]


def _change(
    name: str,
    before: Series,
    after: Series,
    blocks: Blocks,
    quantity: Quantity,
    min_change: float = MIN_CHANGE,
    reference: Quantity | None = None,
    more_is_slower: bool = True,
) -> Change:
    """Return the change of a quantity, relative to the mean of `reference` (None: of itself) in the first run."""
    first = [quantity(before, steps) for steps, _ in blocks]
    second = [quantity(after, steps) for _, steps in blocks]
    base = fmean((reference or quantity)(before, steps) for steps, _ in blocks)
    unit = "s" if more_is_slower else "/s"
    if base == 0:
        return Change(name, unit, fmean(first), fmean(second), reason="its mean is 0 in the first run")
    changes = [(b - a) / base for a, b in zip(first, second, strict=True)]
    change = fmean(changes)
    half_width = half_width_of(changes)
    result: Result = "alike"
    reason = ""
    if abs(change) >= min_change and abs(change) > half_width:
        result = "slower" if (change > 0) == more_is_slower else "faster"
    elif half_width > MAX_HALF_WIDTH:
        result = "unknown"
        reason = f"noise alone makes ±{half_width:.1%}: let both runs take more steps"
    return Change(name, unit, fmean(first), fmean(second), change, half_width, result, reason)


def half_width_of(differences: Sequence[float]) -> float:
    """Return the half-width of the confidence interval of the mean of at least `MIN_BLOCKS` differences in order."""
    num = len(differences)
    num_cosines = min(COSINES, num // 3)
    mean = fmean(differences)
    coefficients = [
        sqrt(2 / num) * sum((d - mean) * cos(pi * cosine * (i + 0.5) / num) for i, d in enumerate(differences))
        for cosine in range(1, num_cosines + 1)
    ]
    normal_quantile = NormalDist().inv_cdf((1 + CERTAINTY) / 2)
    return student(normal_quantile, num_cosines) * sqrt(fmean(coefficient**2 for coefficient in coefficients) / num)
