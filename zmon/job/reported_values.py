"""Find the values that ranks report, such as a loss, and that have stopped being numbers. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from zmon.job.alignment import Floats, Integers
from zmon.schema.rank import RankState


@dataclass
class _Column:
    """The last value of one key on each rank that reports it, with the steps at which it changed."""

    ranks: list[int]
    values: Floats  # NaN: it was never a number
    last_change: Integers  # step
    last_finite: Integers  # the last step at which it was a number
    interval: Integers  # steps between its last two changes; 0: it has not changed twice

    @classmethod
    def new(cls, ranks: list[int], steps: Integers) -> _Column:
        """Return the column of ranks that report the key first at these steps."""
        nothing = np.zeros(len(ranks), np.int64)
        return cls(ranks, np.full(len(ranks), np.nan), steps.copy(), steps.copy(), nothing)

    def for_ranks(self, ranks: list[int], steps: Integers) -> _Column:
        """Return the column for these ranks; a rank that is not in it yet begins at its step."""
        if ranks == self.ranks:
            return self
        place_of = {rank: place for place, rank in enumerate(self.ranks)}
        result = _Column.new(ranks, steps)
        known = [place for place, rank in enumerate(ranks) if rank in place_of]
        places = [place_of[ranks[place]] for place in known]
        result.values[known] = self.values[places]
        result.last_change[known] = self.last_change[places]
        result.last_finite[known] = self.last_finite[places]
        result.interval[known] = self.interval[places]
        return result

    def updated(self, values: Floats, steps: Integers) -> _Column:
        """Return the column after reports of these values at these steps."""
        is_finite = ~np.isnan(values)
        has_changed = is_finite & (values != self.values)
        return _Column(
            self.ranks,
            values=np.where(has_changed, values, self.values),
            last_change=np.where(has_changed, steps, self.last_change),
            last_finite=np.where(is_finite, steps, self.last_finite),
            interval=np.where(has_changed, steps - self.last_change, self.interval),
        )

    def num_steps_of_nan(self, values: Floats, steps: Integers) -> int | None:
        """Return for how many steps some rank has reported NaN; None if it may have reported NaN only once."""
        counts = steps - self.last_finite
        lasting = np.isnan(values) & (counts >= 2 * self.interval)
        return int(counts[lasting].max()) if lasting.any() else None


@dataclass
class ReportedValues:
    """The values that the ranks of one launch report."""

    _columns: dict[str, _Column] = field(default_factory=dict)

    def not_finite(self, ranks: Iterable[RankState]) -> dict[str, int]:
        """Return, by report key, for how many steps some rank has reported NaN.

        A key is left out until the rank must have reported NaN twice. In a job that reports every hundred steps, a
        single odd value would otherwise count as a hundred steps. A value that was never a number counts from the
        first report.
        """
        states = list(ranks)
        all_steps = np.array([state.step for state in states])
        num_steps: dict[str, int] = {}
        columns: dict[str, _Column] = {}
        for key in dict.fromkeys(chain.from_iterable(state.report for state in states)):
            places = [place for place, state in enumerate(states) if key in state.report]
            numbers, steps = [states[place].rank for place in places], all_steps[places]
            values = np.array([states[place].report[key] for place in places], np.float64)  # None becomes NaN
            known = self._columns.get(key)
            column = _Column.new(numbers, steps) if known is None else known.for_ranks(numbers, steps)
            lasting = column.num_steps_of_nan(values, steps)
            if lasting is not None:
                num_steps[key] = lasting
            columns[key] = column.updated(values, steps)
        self._columns = columns
        return num_steps
