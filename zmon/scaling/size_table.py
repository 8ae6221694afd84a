"""What should a step take at each of these sizes, and what if something were different?

Pure. What `zmon predict` tells at the terminal, the hub tells of a job (`/api/v1/jobs/<job_id>/scaling`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from zmon.errors import UsageError
from zmon.scaling.expected import parts_of
from zmon.scaling.fit import Model
from zmon.scaling.predict import Prediction
from zmon.scaling.what_if import changed
from zmon.schema.api import SizeRow, StepAnswer
from zmon.schema.unknown import Unknown

MOST_RANKS = 1 << 31  # as a baseline may have; far beyond, the slowest rank is one of more than a float can count
_BEYOND = "it comes out as a number that no step can have"


@dataclass(frozen=True)
class SizePrediction:
    """A step at one size, as things are and as they would be."""

    ranks: int
    samples: int  # of all ranks, a step
    step: Prediction | Unknown
    what_if: Prediction | Unknown | None = None  # None: nobody asked


def numbers(name: str, words: str) -> list[int]:
    """1,2,4 → [1, 2, 4]. Raises UsageError: `name` has no such list."""
    try:
        found = [int(word) for word in words.split(",")]
    except ValueError:
        found = []
    if not found or min(found) < 1 or max(found) > MOST_RANKS:
        raise UsageError(
            f"{name} {words} is no list of sizes", "it takes numbers from 1 to 2^31 with commas between them", "1,2,4"
        )
    return found


def find(model: Model, sizes: Sequence[tuple[int, int]], what_ifs: Sequence[str] = ()) -> list[SizePrediction]:
    """Each size as it is, and with all of these. Raises UsageError: one is none."""
    other = changed(model, what_ifs) if what_ifs else None
    return [
        SizePrediction(n, samples, _at(model, n, samples), _at(other, n, samples) if other else None)
        for n, samples in sizes
    ]


def size_row(size: SizePrediction) -> SizeRow:
    """One of them as the answer has it."""
    what_if = None if size.what_if is None else _answer(size.what_if)
    return SizeRow(size.ranks, size.samples, _answer(size.step), what_if)


def _answer(step: Prediction | Unknown) -> StepAnswer:
    if isinstance(step, Unknown):
        return StepAnswer(unknown=step.reason)
    return StepAnswer(step.seconds, parts_of(step), step.samples_per_second)


def _at(model: Model, ranks: int, samples: int) -> Prediction | Unknown:
    with contextlib.suppress(ArithmeticError):  # factors are a person's: links can come out infinitely slow
        step = model.at(ranks, samples)
        if isinstance(step, Unknown) or 0 < step.samples_per_second < inf:
            return step
    return Unknown(_BEYOND)
