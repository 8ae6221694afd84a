"""Functions on the columns of an AlignedStep, which have one value per rank. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zmon.schema.aligned_step import AlignedStep

Values = NDArray[Any]  # of floats, or of whole numbers


def values(column: Sequence[float]) -> Values:
    """Return a column as an array; all its values must be known."""
    return np.asarray(column)


def middle(column: Sequence[float]) -> float:
    """Return the value of the median rank: of an even number of ranks, the lower one of the two in the middle."""
    place = (len(column) - 1) // 2
    return float(np.partition(values(column), place)[place])


def middle_rank(column: Sequence[float]) -> int:
    """Return the median rank: of an even number of ranks, the lower one of the two in the middle."""
    return int(np.argsort(values(column), kind="stable")[(len(column) - 1) // 2])


def exposed_by_rank(step: AlignedStep) -> Values:
    """Return the exposed time of each rank in all ops together."""
    return total(step.exposed.values(), len(step.self_seconds))


def total(columns: Iterable[Sequence[float]], num_ranks: int) -> Values:
    """Return the sum of these columns for each rank; 0 without columns."""
    result = np.zeros(num_ranks)
    for column in columns:
        result += values(column)
    return result


def by_rank(columns: Sequence[Sequence[float] | Values]) -> Values:
    """Return an array of ranks × steps, given one column for each step."""
    return np.array([np.asarray(column) for column in columns]).T
