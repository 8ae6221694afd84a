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


class _Selection:
    """Some columns of steps, and the places of their numbers in a boundary.

    The number of a step is the difference of the totals at its two ends, or is in the boundary at its end.
    """

    def __init__(self, names: Sequence[str]) -> None:
        differences = [name for name in names if COLUMNS[name].measure.of_step == "difference"]
        at_end = [name for name in names if COLUMNS[name].measure.of_step != "difference"]
        self.names = (*differences, *at_end)
        self._totals = itemgetter(*(layout.FIRST + COLUMNS[name].slot for name in self.names))
        self._differences = itemgetter(*(layout.FIRST + COLUMNS[name].slot for name in differences))
        own_slots = (OWN_SLOTS.get(COLUMNS[name].measure.name, COLUMNS[name].slot) for name in at_end)
        self._at_end = itemgetter(*(layout.FIRST + slot for slot in own_slots))

    def of_step(self, previous: Row, end: Row) -> tuple[int, ...]:
        return (*map(sub, self._differences(end), self._differences(previous)), *self._at_end(end))

    def mean(self, first: Row, end: Row) -> list[int]:
        """Return the mean of the steps that ended after `first` and up to `end`; it follows from the totals."""
        num_steps = end[layout.STEPS] - first[layout.STEPS]
        return [
            # Totals of amounts begin again at 0 after MAX_AMOUNT.
            UNKNOWN if before < 0 or after < 0 else round(((after - before) & layout.MAX_AMOUNT) / num_steps)
            for before, after in zip(self._totals(first), self._totals(end), strict=True)
        ]


_ALL = _Selection([name for name in COLUMNS if name != DURATION])
_ALIGNED = _Selection([name for name, column in COLUMNS.items() if column.measure.aligned])
_MEANS = (MEAN_STEPS, *(MEAN + name for name in _ALIGNED.names))
_sent_by_same_size_op = itemgetter(*(layout.COUNTS.start + layout.SENT + OPS.index(op) for op in SAME_SIZE_OPS))


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


def _whole(ends: StepEnds, clock: int) -> tuple[int, ...]:
    """Return the row of `whole_steps` for a step; `clock`: the place of its end in a boundary."""
    end = ends.end
    duration = end[layout.STEP_NS] - ends.previous[layout.STEP_NS]
    sent = sum(_sent_by_same_size_op(end))
    return (end[layout.STEP_NUMBER], end[clock] - duration, duration, sent, *_ALL.of_step(ends.previous, end))


def _aligned(ends: StepEnds, with_means: bool) -> tuple[int, ...]:
    """Return the row of `aligned_steps` for a step; a step without a mean stands for itself."""
    end, first = ends.end, ends.mean_from
    numbers = _ALIGNED.of_step(ends.previous, end)
    row = (end[layout.STEP_NUMBER], sum(_sent_by_same_size_op(end)), *numbers)
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
