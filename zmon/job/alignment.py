"""Align steps: those of all ranks become one AlignedStep, whose columns have the ranks side by side. Pure.

numpy is a dependency of the hub and of offline analysis, which import this module; no rank and no agent does.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zmon.schema.aligned_step import AlignedStep
from zmon.schema.measures import MEASURES, NS, UNKNOWN, Measure, measure_of
from zmon.schema.steps import MEAN, MEAN_STEPS, SAME_SIZE_SENT, STEP, Steps, absent

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
_ALIGNED = tuple(measure for measure in MEASURES if measure.aligned)
_MEASURES_OF_OPS = tuple(measure for measure in _ALIGNED if measure.per == "op")


class Matrix(NamedTuple):
    """Steps of some ranks of one launch."""

    names: tuple[str, ...]
    numbers: Integers  # (columns, rows)
    ranks: Integers  # of each row

    @property
    def steps(self) -> Integers:
        """The number of the step of each row."""
        numbers: Integers = self.numbers[self.names.index(STEP)]
        return numbers


class StepRows(NamedTuple):
    """Some rows of one step."""

    matrix: Matrix
    rows: Integers

    @property
    def ranks(self) -> Integers:
        """Their ranks."""
        return self.matrix.ranks[self.rows]


def matrix(parts: Iterable[Steps], ranks: Mapping[str, int], world_size: int) -> Matrix | None:
    """Return the steps of the ranks of one launch; None if there are none. `ranks`: run uid → rank."""
    parts = [part for part in parts if part.num_rows]
    uids = chain.from_iterable(part.run_uids for part in parts)
    counts = [*chain.from_iterable(part.counts for part in parts)]
    rank_of_row = np.repeat(np.array([ranks.get(uid, -1) for uid in uids], np.int64), counts)
    chosen = np.flatnonzero((rank_of_row >= 0) & (rank_of_row < world_size))
    if not len(chosen):
        return None
    names = tuple(dict.fromkeys(chain.from_iterable(part.columns for part in parts)))
    sizes = np.array([part.num_rows for part in parts])
    numbers = np.empty((len(names), len(rank_of_row)), np.int64)
    for line, name in enumerate(names):
        nothing = absent(name), b""
        _fill(numbers[line], [part.columns.get(name, nothing) for part in parts], sizes)
    if len(chosen) < len(rank_of_row):
        numbers, rank_of_row = numbers[:, chosen], rank_of_row[chosen]
    return Matrix(names, numbers, rank_of_row)


def _fill(line: Integers, columns: Sequence[tuple[int, bytes]], sizes: Integers) -> None:
    """Write one column of all parts. A part has its lowest number, and by row the difference from it.

    `sizes` has the number of rows of each part.
    """
    line[:] = np.repeat(np.array([low for low, _ in columns], np.int64), sizes)
    widths = {len(data) // size for (_, data), size in zip(columns, sizes.tolist(), strict=True)}
    if len(widths) == 1:
        if width := widths.pop():
            line += np.frombuffer(b"".join([data for _, data in columns]), f"<u{width}").astype(np.int64)
        return
    start = 0
    for (_, data), size in zip(columns, sizes.tolist(), strict=True):
        if data:
            line[start : start + size] += np.frombuffer(data, f"<u{len(data) // size}").astype(np.int64)
        start += size


def num_ranks(parts: Sequence[StepRows]) -> int:
    """Return the number of ranks that have one of these rows."""
    return int(np.count_nonzero(np.bincount(np.concatenate([part.ranks for part in parts]))))


def align(parts: Iterable[Steps], ranks: Mapping[str, int], world_size: int) -> list[AlignedStep]:
    """Return the steps that all ranks have, in order. `ranks`: run uid → rank."""
    whole = matrix(parts, ranks, world_size)
    if whole is None:
        return []
    order = np.argsort(whole.steps, kind="stable")
    numbers, starts = np.unique(whole.steps[order], return_index=True)
    parts_of_steps = [StepRows(whole, rows) for rows in np.split(order, starts[1:])]
    steps = zip(numbers.tolist(), parts_of_steps, strict=True)
    return [align_rows(step, [part], world_size, 1) for step, part in steps if num_ranks([part]) == world_size]


def align_rows(step: int, parts: Sequence[StepRows], world_size: int, stands_for: int) -> AlignedStep:
    """Return the aligned step, given rows that include each rank. If a rank has several rows, the last row counts."""
    names = tuple(dict.fromkeys(chain.from_iterable(part.matrix.names for part in parts)))
    numbers = np.empty((len(names), world_size), np.int64)
    numbers[:] = np.array([absent(name) for name in names])[:, None]
    for part in parts:
        places = [names.index(name) for name in part.matrix.names]
        numbers[np.array(places)[:, None], part.ranks] = part.matrix.numbers[:, part.rows]
    mean = None
    if MEAN_STEPS in names and (numbers[names.index(MEAN_STEPS)] > 0).all():
        mean = _side_by_side(step, stands_for, names, numbers, MEAN)
    return _side_by_side(step, stands_for, names, numbers, "", mean)


def _side_by_side(
    step: int, stands_for: int, names: tuple[str, ...], numbers: Integers, prefix: str, mean: AlignedStep | None = None
) -> AlignedStep:
    """Return the aligned step of these numbers, columns × ranks; `prefix` is that of a mean's columns, or empty."""
    lines = _lines(names, prefix)
    phases = {word: line for word, line in lines["phase"].items() if numbers[line].any()}
    known_ops = dict.fromkeys(word for measure in _MEASURES_OF_OPS for word in lines[measure.name])
    ops = [op for op in known_ops if _has_run(op, lines, numbers)]
    self_times = numbers[[*phases.values()]].sum(axis=0, dtype=np.float64)  # integers could overflow in a hostile job
    exposed = numbers[[lines["exposed"][op] for op in ops if op in lines["exposed"]]].sum(axis=0, dtype=np.float64)
    critical = _critical_rank(self_times, exposed)
    words = {"": [""], "phase": [*phases], "op": ops}
    columns: dict[str, Sequence[float | None]] = {}
    for measure in _ALIGNED:
        for word in words[measure.per]:
            line = lines[measure.name].get(word)
            if line is not None:
                columns[measure.column_of(word)] = _column(measure, numbers[line])
            elif measure.per:  # an op that only sent or received
                kind = "d" if measure.unit == "seconds" else "q"
                columns[measure.column_of(word)] = array(kind, bytes(8 * len(self_times)))
    if not prefix and SAME_SIZE_SENT in names:
        columns[SAME_SIZE_SENT] = _amounts(numbers[names.index(SAME_SIZE_SENT)])
    seconds = float(self_times[critical] + exposed[critical]) * NS
    return AlignedStep(step, stands_for, seconds, critical, _seconds(self_times), columns, mean)


def _has_run(op: str, lines: Mapping[str, Mapping[str, int]], numbers: Integers) -> bool:
    """Return True if a measure of the op is not zero on some rank."""
    lines_of_op = (lines[measure.name].get(op) for measure in _MEASURES_OF_OPS)
    return any(line is not None and numbers[line].any() for line in lines_of_op)


@lru_cache(1024)
def _lines(names: tuple[str, ...], prefix: str) -> dict[str, dict[str, int]]:
    """Return the line of each column in the numbers: measure → word (a phase, an op, or "") → line."""
    lines: dict[str, dict[str, int]] = {measure.name: {} for measure in _ALIGNED}
    for line, name in enumerate(names):
        if name.startswith(prefix) and (known := measure_of(name.removeprefix(prefix))):
            measure, word = known
            if measure.aligned:
                lines[measure.name][word] = line
    return lines


def _column(measure: Measure, numbers: Integers) -> Sequence[float | None]:
    """Return the values of one measure by rank, in its unit; None: unknown."""
    if measure.unit == "seconds":
        return _seconds(numbers)
    return _amounts(numbers) if measure.of_step == "own" else array("q", numbers.tobytes())


def _seconds(nanoseconds: NDArray[Any]) -> array[float]:
    return array("d", (nanoseconds * NS).tobytes())


def _amounts(numbers: Integers) -> Sequence[int | None]:
    """Return an array, or a tuple if a number is unknown."""
    if (numbers <= UNKNOWN).any():
        return tuple(None if number <= UNKNOWN else number for number in numbers.tolist())
    return array("q", numbers.tobytes())


def _critical_rank(self_times: Floats, exposed: Floats) -> int:
    """Return the rank that waited least; of several, the one with the longest self time.

    A rank without any time in the step is no candidate, unless no rank has any.
    """
    timed = (self_times != 0) | (exposed != 0)
    if not timed.any():
        timed[:] = True
    waiting = np.where(timed, exposed, np.inf)
    least = np.flatnonzero(waiting == waiting.min())
    return int(least[np.argmax(self_times[least])])
