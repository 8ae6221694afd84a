"""What should a step take at each of these sizes, and what if something were different?

Pure. What `zmon predict` tells at the terminal, the hub tells of a job (`/api/v1/jobs/<job_id>/scaling`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from math import inf
from typing import Any

from zmon.errors import UsageError
from zmon.scaling.expected import parts_of
from zmon.scaling.fit import Model
from zmon.scaling.predict import Prediction
from zmon.scaling.what_if import changed

MOST_RANKS = 1 << 31  # as a baseline may have; far beyond, the slowest rank is one of more than a float can count
_BEYOND = "it comes out as a number that no step can have"

Found = tuple[int, int, Prediction | str, Prediction | str | None]  # ranks, samples, as it is, if it were so


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


def find(model: Model, sizes: Sequence[tuple[int, int]], what_ifs: Sequence[str] = ()) -> list[Found]:
    """Each size as it is, and with all of these. Raises UsageError: one is none."""
    other = changed(model, what_ifs) if what_ifs else None
    return [(n, samples, _at(model, n, samples), _at(other, n, samples) if other else None) for n, samples in sizes]


def told(ranks: int, samples: int, step: Prediction | str, other: Prediction | str | None) -> dict[str, Any]:
    """One of them in JSON."""

    def one(found: Prediction | str) -> dict[str, Any]:
        if isinstance(found, str):
            return {"unknown": found}
        return {"seconds": found.seconds, "causes": parts_of(found), "samples_per_second": found.samples_per_second}

    return {"ranks": ranks, "samples": samples, "predicted": one(step), "what_if": other and one(other)}


def _at(model: Model, ranks: int, samples: int) -> Prediction | str:
    with contextlib.suppress(ArithmeticError):  # factors are a person's: links can come out infinitely slow
        step = model.at(ranks, samples)
        if isinstance(step, str) or 0 < step.samples_per_second < inf:
            return step
    return _BEYOND
