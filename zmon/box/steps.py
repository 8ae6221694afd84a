"""Turns the boundaries in a box into steps and into the totals of its rank. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter, sub
from typing import Any, NamedTuple

from zmon.box import layout
from zmon.box.ring import Row
from zmon.schema.measures import COLUMNS, MEASURES, NS, OWN_SLOTS, UNKNOWN, value
from zmon.schema.names import OPS, SAME_SIZE_OPS
from zmon.schema.steps import DURATION, MEAN, MEAN_STEPS, SAME_SIZE_SENT, START, STEP, Steps


class StepEnds(NamedTuple):
    """The two boundaries of a step; a sampled step also stands for the steps since the sampled step before it."""

    previous: Row
    end: Row
    mean_from: Row | None = None  # the boundary after which the mean of those steps begins; None: there is no mean


def _slots(names: Sequence[str], differences: bool) -> dict[str, int]:
    """Return the places in a boundary of the columns whose steps are differences of totals, or of all other columns."""
    columns = {name: COLUMNS[name] for name in names}
    return {
        name: layout.FIRST + OWN_SLOTS.get(column.measure.name, column.slot)
        for name, column in columns.items()
        if (column.measure.of_step == "difference") == differences
    }


class _Selection:
    """Some columns of a step, and where their numbers are."""

    def __init__(self, names: Sequence[str]) -> None:
        differences = _slots(names, differences=True)
        amounts = _slots(names, differences=False)
        self.names = (*differences, *amounts)
        self._differences, self._amounts = itemgetter(*differences.values()), itemgetter(*amounts.values())
        # The mean of an amount follows from its totals.
        self._totals = itemgetter(*(layout.FIRST + COLUMNS[name].slot for name in self.names))

    def of_step(self, previous: Row, end: Row) -> tuple[int, ...]:
        return (*map(sub, self._differences(end), self._differences(previous)), *self._amounts(end))

    def mean(self, first: Row, end: Row) -> list[int]:
        """Return the mean of the steps that ended after `first` and up to `end`."""
        number = end[layout.STEPS] - first[layout.STEPS]
        pairs = zip(self._totals(first), self._totals(end), strict=True)
        return [UNKNOWN if a < 0 or b < 0 else round((b - a & layout.MAX_AMOUNT) / number) for a, b in pairs]


_ALL = _Selection([name for name in COLUMNS if name != DURATION])
_ALIGNED = _Selection([name for name, column in COLUMNS.items() if column.measure.aligned])
_MEANS = (MEAN_STEPS, *(MEAN + name for name in _ALIGNED.names))
_same_size_ops = itemgetter(*(layout.COUNTS.start + layout.SENT + OPS.index(op) for op in SAME_SIZE_OPS))


def whole_steps(ends: Mapping[str, Sequence[StepEnds]], unix: bool = False) -> Steps:
    """Return all that is known of the steps of each rank, by run uid.

    They start on the host's monotonic clock; `unix`: in unix time, as the rank's host had it.
    """
    clock = layout.LAST_STEP if unix else layout.TIME
    rows = {uid: [_whole(step, clock) for step in rank_ends] for uid, rank_ends in ends.items()}
    return Steps.from_rows((STEP, START, DURATION, SAME_SIZE_SENT, *_ALL.names), rows)


def aligned_steps(ends: Mapping[str, Sequence[StepEnds]]) -> Steps:
    """Return what the hub compares over all ranks, with the means of the steps between, by run uid."""
    with_means = any(step.mean_from is not None for rank_ends in ends.values() for step in rank_ends)
    names = (STEP, SAME_SIZE_SENT, *_ALIGNED.names, *(_MEANS if with_means else ()))
    rows = {uid: [_aligned(step, with_means) for step in rank_ends] for uid, rank_ends in ends.items()}
    return Steps.from_rows(names, rows)


def _sent_so_far(end: Row) -> int:
    """Return the bytes that the rank has sent in `SAME_SIZE_OPS`."""
    return sum(_same_size_ops(end))


def _whole(ends: StepEnds, clock: int) -> tuple[int, ...]:
    """Return the row of `whole_steps` for a step; `clock`: the place of its end in a boundary."""
    previous, end, _ = ends
    duration = end[layout.STEP_NS] - previous[layout.STEP_NS]
    start = end[clock] - duration
    return (end[layout.STEP_NUMBER], start, duration, _sent_so_far(end), *_ALL.of_step(previous, end))


def _aligned(ends: StepEnds, with_means: bool) -> tuple[int, ...]:
    """Return the row of `aligned_steps` for a step; a step without a mean stands for itself."""
    previous, end, first = ends
    numbers = _ALIGNED.of_step(previous, end)
    row = (end[layout.STEP_NUMBER], _sent_so_far(end), *numbers)
    if not with_means:
        return row
    if first is None:
        return (*row, 0, *numbers)
    return (*row, end[layout.STEPS] - first[layout.STEPS], *_ALIGNED.mean(first, end))


_RANK_COLUMNS = [name for name, column in COLUMNS.items() if not column.word and not column.measure.field]
_PHASE_COLUMNS = [name for name, column in COLUMNS.items() if column.measure.per == "phase"]
_OP_COLUMNS = [[name for name, column in COLUMNS.items() if column.word == op] for op in OPS]


def totals(row: Row) -> dict[str, float]:
    """Return the totals of a rank by column; phases and ops that never ran are left out, and so is what is unknown."""
    names = [name for name in _RANK_COLUMNS if _total(row, name) != UNKNOWN]
    names += [name for name in _PHASE_COLUMNS if _total(row, name)]
    calls, exposed = row[layout.SLOTS["calls"]], row[layout.SLOTS["exposed"]]
    for columns, num_calls, exposed_ns in zip(_OP_COLUMNS, calls, exposed, strict=True):
        if num_calls or exposed_ns:
            names += columns
    return {name: _total(row, name) * (NS if COLUMNS[name].measure.unit == "seconds" else 1) for name in names}


def fields_of_state(row: Row) -> dict[str, Any]:
    """Return the totals of a rank that are fields of `RankState`, by their names there."""
    fields: dict[str, Any] = {}
    for measure in MEASURES:
        numbers = row[layout.SLOTS[measure.name]]
        if measure.field and measure.per:
            pairs = zip(measure.words, numbers, strict=True)
            fields[measure.field] = {word: value(measure, number) for word, number in pairs if number}
        elif measure.field:
            is_unknown = numbers[0] < 0 and measure.of_step != "difference"
            fields[measure.field] = None if is_unknown else value(measure, numbers[0])
    return fields


def _total(row: Row, name: str) -> int:
    return row[layout.FIRST + COLUMNS[name].slot]
