"""Local repair of an assignment: another kind, or other ranks, for a table of the slowest rank.

Each round takes the slowest rank or, if something does not fit, the rank that lacks most memory. It tries all options
and groups for the tables of this rank, one table after the other, and makes the first move that improves the score. The
repair ends when no move does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from trainer.scale.sharding.assignment import Assignment, Limits, Score, best, nanoseconds, score
from trainer.scale.sharding.cost import Loads
from trainer.scale.sharding.options import Option
from trainer.scale.sharding.step import Step
from trainer.scale.sharding.swaps import swap_tables

_BUDGET = 16_000_000  # scores of single ranks to compute, so that a large job takes no longer than a small one


class Repair:
    """The repair of several assignments; `options` has all options of each table."""

    def __init__(self, options: Sequence[Sequence[Option]], step: Step, limits: Limits) -> None:
        self.options, self.step, self.limits = options, step, limits
        self.budget = _BUDGET  # left for all assignments

    def repair(self, starts: Sequence[Assignment]) -> Iterator[Assignment]:
        """Yield the repaired assignments, that of the best start first."""
        for start in sorted(starts, key=lambda start: score(start, self.step, self.limits)):
            assignment = start.copy()
            while self._move(assignment):
                pass
            yield swap_tables(assignment, self.step, self.limits)

    def _move(self, assignment: Assignment) -> bool:
        """Move one table of the slowest rank, in place. Return False if no move improves the score."""
        lowest = score(assignment, self.step, self.limits)
        for table in self._tables_of_slowest(assignment):
            if self.budget <= 0:
                return False
            self.budget -= len(self.step.share) * sum(len(option.shard_ranks) for option in self.options[table])
            new, option, group, loads = self._best_move(assignment, table)
            if new < lowest:
                assignment.options[table], assignment.groups[table], assignment.loads = option, group, loads
                return True
        return False

    def _tables_of_slowest(self, assignment: Assignment) -> list[int]:
        """Return the tables of the slowest rank, those with the longest shards first."""
        excess = self.limits.excess(assignment.loads)
        slowest = int((excess if excess.any() else nanoseconds(assignment.loads, self.step)).argmax())
        tables = [
            table
            for table, option in enumerate(assignment.options)
            if not option.shard_times.size or slowest in assignment.ranks(table)
        ]
        return sorted(tables, key=lambda table: -assignment.options[table].longest_time)

    def _best_move(self, assignment: Assignment, table: int) -> tuple[Score, Option, int, Loads]:
        """Return the option and group of a table with the lowest score, and the loads with it."""
        without_table, moves = assignment.without(table), []
        for index, option in enumerate(self.options[table]):
            num_groups = len(option.shard_ranks)
            # The loads with the table on each group: (groups, loads, ranks)
            stacked = np.repeat((without_table + option.fixed_loads)[None], num_groups, axis=0)
            stacked.transpose(0, 2, 1)[np.arange(num_groups)[:, None], option.shard_ranks] += option.shard_loads.T
            lowest, group = best(stacked, self.step, self.limits)
            moves.append((lowest, index, group, stacked[group]))
        lowest, index, group, loads = min(moves, key=lambda move: move[:2])  # the first option of equal ones
        return lowest, self.options[table][index], group, loads
