"""Functions on the columns of an AlignedStep, which have one value per rank. Pure."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zmon.schema.aligned_step import AlignedStep, Amounts

Values = NDArray[Any]  # of floats, or of whole numbers


def values(column: Sequence[float]) -> Values:
    """Return a column as an array; all its values must be known."""
    return np.asarray(column)


def middle(column: Sequence[float]) -> float:
    """Return the value of the median rank: of an even number of ranks, the lower one of the two in the middle."""
    place = (len(column) - 1) // 2
    return float(np.partition(values(column), place)[place])


def middle_rank(column: Sequence[float]) -> int:
    """Return the median rank: of an even number of ranks, the lower one of the two in the middle.

    Of ranks with equal values, it is the one that a sort of all ranks would have there.
    """
    numbers, place = values(column), (len(column) - 1) // 2
    value = np.partition(numbers, place)[place]
    return int(np.flatnonzero(numbers == value)[place - np.count_nonzero(numbers < value)])


def total_samples(step: AlignedStep) -> int | None:
    """Return the samples of all ranks in a step; None if a rank does not report its samples."""
    return total(step.samples)


def total(column: Amounts) -> int | None:
    """Return the sum over all ranks; None if the amount of a rank is unknown."""
    is_known = isinstance(column, array) or None not in column  # an array has no unknown number
    return int(np.asarray(column).sum()) if is_known else None


def samples_meanwhile(step: AlignedStep, rank: int) -> float | None:
    """Return the samples of all ranks, each at its own pace, while one rank makes this step; None: unknown."""
    if total_samples(step) is None:
        return None
    durations = map(step.seconds_of, range(len(step.self_seconds)))
    rates = [(samples or 0) / seconds for samples, seconds in zip(step.samples, durations, strict=True) if seconds > 0]
    return sum(rates) * step.seconds_of(rank)


def exposed_by_rank(step: AlignedStep) -> Values:
    """Return the exposed time of each rank in all ops together."""
    result = np.zeros(len(step.self_seconds))
    for column in step.exposed.values():
        result += values(column)
    return result


def by_rank(columns: Sequence[Sequence[float] | Values]) -> Values:
    """Return an array of ranks × steps, given one column for each step."""
    return np.array([np.asarray(column) for column in columns]).T
