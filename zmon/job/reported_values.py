"""Find the values that ranks report, such as a loss, and that have stopped being numbers. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zmon.job.alignment import Integers
from zmon.schema.rank import RankState

_NO_REPORT: Any = object()


@dataclass
class _Column:
    """The last value of one key on each rank that reports it, with the steps at which it changed."""

    ranks: list[int]
    values: NDArray[np.float64]  # NaN: it was never a number
    last_change: Integers  # step
    last_finite: Integers  # the last step at which it was a number
    every: Integers  # steps between its last two changes

    def of(self, ranks: list[int], steps: Integers) -> _Column:
        """Return the column of these ranks; a rank that is not in it yet begins at its step."""
        if ranks == self.ranks:
            return self
        known = {rank: place for place, rank in enumerate(self.ranks)}
        result = _new_column(ranks, steps)
        old_places = [place for place, rank in enumerate(ranks) if rank in known]
        known_places = [known[ranks[place]] for place in old_places]
        for name in ("values", "last_change", "last_finite", "every"):
            getattr(result, name)[old_places] = getattr(self, name)[known_places]
        return result


def _new_column(ranks: list[int], steps: Integers) -> _Column:
    nothing = np.zeros(len(ranks), np.int64)
    return _Column(ranks, np.full(len(ranks), np.nan), steps.copy(), steps.copy(), nothing)


@dataclass
class ReportedValues:
    """The values that the ranks of one launch report."""

    _columns: dict[str, _Column] = field(default_factory=dict)

    def not_finite(self, ranks: Iterable[RankState]) -> dict[str, int]:
        """Return, by report key, for how many steps some rank has reported NaN.

        A key is left out until the rank must have reported NaN twice. In a job that reports every hundred steps, a
        single odd value would otherwise count as a hundred steps. A value that was never a number counts
        from the first report.
        """
        ranks = list(ranks)
        reports = [state.report for state in ranks]
        all_numbers, all_steps = [state.rank for state in ranks], np.array([state.step for state in ranks])
        num_steps: dict[str, int] = {}
        columns: dict[str, _Column] = {}
        for key in dict.fromkeys(chain.from_iterable(reports)):
            numbers, steps = all_numbers, all_steps
            reported = [report.get(key, _NO_REPORT) for report in reports]
            if _NO_REPORT in reported:  # some ranks never reported it
                places = [place for place, value in enumerate(reported) if value is not _NO_REPORT]
                numbers, steps = [all_numbers[place] for place in places], all_steps[places]
                reported = [reported[place] for place in places]
            column = self._columns[key].of(numbers, steps) if key in self._columns else _new_column(numbers, steps)
            values = np.array(reported, np.float64)  # None becomes NaN
            finite = ~np.isnan(values)
            counts = steps - column.last_finite
            lasting = ~finite & (counts >= 2 * column.every)
            if lasting.any():
                num_steps[key] = int(counts[lasting].max())
            changed = finite & (values != column.values)
            columns[key] = _Column(
                numbers,
                values=np.where(changed, values, column.values),
                last_change=np.where(changed, steps, column.last_change),
                last_finite=np.where(finite, steps, column.last_finite),
                every=np.where(changed, steps - column.last_change, column.every),
            )
        self._columns = columns
        return num_steps
