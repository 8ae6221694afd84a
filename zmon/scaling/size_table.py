"""Predicted steps at several sizes, each with and without what-ifs.

Pure. `zmon predict` shows the steps at the terminal. The hub returns them for a job (`/api/v1/jobs/<job_id>/scaling`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from zmon.errors import UsageError
from zmon.scaling.expected import parts_of
from zmon.scaling.fit import Model
from zmon.scaling.predict import PredictedStep
from zmon.scaling.what_if import with_what_ifs
from zmon.schema.api import SizeRow, StepAnswer
from zmon.schema.unknown import Unknown

MAX_RANKS = 1 << 31  # ranks, as in a recorded baseline; far larger numbers exceed the precision of a float


@dataclass(frozen=True)
class SizePrediction:
    """The predicted step at one size, without and with what-ifs."""

    ranks: int
    samples: int  # samples of all ranks in a step
    step: PredictedStep | Unknown
    what_if: PredictedStep | Unknown | None = None  # None: no what-if was given


def parse_sizes(name: str, words: str) -> list[int]:
    """Parse a list of sizes, such as 1,2,4. Raises UsageError, which names the option `name`."""
    try:
        sizes = [int(word) for word in words.split(",")]
    except ValueError:
        sizes = []
    if not sizes or min(sizes) < 1 or max(sizes) > MAX_RANKS:
        why = "it needs numbers from 1 to 2^31, separated by commas"
        raise UsageError(f"{name} {words} is not a list of sizes", why, "Write it like 1,2,4")
    return sizes


def predict_sizes(model: Model, sizes: Sequence[tuple[int, int]], what_ifs: Sequence[str] = ()) -> list[SizePrediction]:
    """Predict each size (ranks, samples), also with all what-ifs. Raises UsageError for an invalid what-if."""
    changed = with_what_ifs(model, what_ifs) if what_ifs else None
    return [
        SizePrediction(n, samples, _predict(model, n, samples), _predict(changed, n, samples) if changed else None)
        for n, samples in sizes
    ]


def size_row(size: SizePrediction) -> SizeRow:
    """Return a predicted size as a row of the hub's answer."""
    what_if = None if size.what_if is None else _answer(size.what_if)
    return SizeRow(size.ranks, size.samples, _answer(size.step), what_if)


def _answer(step: PredictedStep | Unknown) -> StepAnswer:
    if isinstance(step, Unknown):
        return StepAnswer(unknown=step.reason)
    return StepAnswer(step.seconds, parts_of(step), step.samples_per_second)


def _predict(model: Model, ranks: int, samples: int) -> PredictedStep | Unknown:
    with contextlib.suppress(ArithmeticError):  # the user chooses the factors, and links can become infinitely slow
        step = model.predict(ranks, samples)
        if isinstance(step, Unknown) or 0 < step.samples_per_second < inf:
            return step
    return Unknown("the predicted step time is zero or not finite")
