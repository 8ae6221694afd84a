"""The recent steps of a job, aligned over all ranks. Pure.

Steps are matched by their number, never by a clock. If ranks heal in their processes, a process that replaces a rank
has taken none of the earlier steps. So steps are numbered from the moment at which the ranks joined.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from zmon.job.alignment import Matrix, StepRows, align_rows, matrix, num_ranks
from zmon.job.joins import since_join
from zmon.schema.aligned_step import AlignedStep
from zmon.schema.steps import Steps

MIN_STEPS = 64  # the fewest aligned steps in memory
_MAX_ROWS = 1024  # with few ranks more steps are needed to estimate the noise
_MAX_STEPS = 256
_MAX_APART = 1024  # the most steps between two that an agent sends: two blocks of its largest stride
# Steps that wait for a rank, to limit memory: the step of a rank takes some hundred bytes. If the agent of one host is
# silent, the steps of all other ranks wait.
_MAX_PENDING = 512
_MAX_PENDING_ROWS = 32_768
_MIN_PENDING = 16  # twice as many as a request of the hub returns
_MAX_NEW = 4096  # steps in one pass; an agent returns about eight, and only a hostile one returns more than this
_NO_JOINS: Mapping[str, int] = MappingProxyType({})


@dataclass
class History:
    """The recent aligned steps of one launch."""

    world_size: int
    steps: deque[AlignedStep] = field(default_factory=deque)
    _pending: dict[int, list[StepRows]] = field(default_factory=dict)  # step → its rows so far
    _newest: dict[int, int] = field(default_factory=dict)  # rank → the last step that it reported
    _joined: dict[int, tuple[str, int]] = field(default_factory=dict)  # rank → its run uid, and its steps before

    def __post_init__(self) -> None:
        num_steps = min(max(MIN_STEPS, _MAX_ROWS // self.world_size), _MAX_STEPS)
        self.steps = deque(self.steps, maxlen=num_steps)
        self._max_pending = max(_MIN_PENDING, min(_MAX_PENDING_ROWS // self.world_size, _MAX_PENDING))

    def add(
        self, parts: Iterable[Steps], ranks: Mapping[str, int], before: Mapping[str, int] = _NO_JOINS
    ) -> list[AlignedStep]:
        """Add steps. Return those that are complete on all ranks now, oldest first.

        `ranks` maps the run uids of this launch to its ranks. The steps of a rank may be in any order, but all are
        newer than those that were added before. `before`: run uid → steps before it joined, see `steps_before_join`.
        """
        self._follow({rank: (uid, before.get(uid, 0)) for uid, rank in ranks.items()})
        new = matrix(parts, ranks, self.world_size)
        if new is not None and before:
            new = since_join(new, {ranks[uid]: number for uid, number in before.items() if uid in ranks})
        if new is None:
            return []
        self._note_newest(new)
        added = [self._append(step) for step in self._add_rows(new)]
        self._drop_incomplete()
        return added

    def _note_newest(self, new: Matrix) -> None:
        """Note the last step that each rank has reported."""
        steps = new.steps
        order = np.lexsort((steps, new.ranks))  # by rank, then by step
        last = order[np.flatnonzero(np.diff(new.ranks[order], append=-1))]
        self._newest.update(zip(new.ranks[last].tolist(), steps[last].tolist(), strict=True))

    def _add_rows(self, new: Matrix) -> list[int]:
        """Add rows to the steps that wait for them. Return the steps that all ranks have now, in order."""
        complete: list[int] = []
        numbers, of_row = np.unique(new.steps, return_inverse=True)
        first = max(len(numbers) - _MAX_NEW, 0)
        for place, step in enumerate(numbers[first:].tolist(), first):
            rows = self._pending.setdefault(step, [])
            rows.append(StepRows(new, np.flatnonzero(of_row == place)))
            num_reported = num_ranks(rows)
            if num_reported < sum(len(part.rows) for part in rows):
                rows[:] = _last_of_each_rank(rows)
            if num_reported == self.world_size:
                complete.append(step)
        return complete

    def _follow(self, joined: Mapping[int, tuple[str, int]]) -> None:
        """Forget all steps if ranks have joined again: totals and numbers of another process do not compare."""
        if any(self._joined.get(rank, known) != known for rank, known in joined.items()):
            self.steps.clear()
            self._pending.clear()
            self._newest.clear()
        self._joined.update(joined)

    def _drop_incomplete(self) -> None:
        """Drop the steps that stay incomplete, and the oldest steps beyond the limit.

        A rank that has reported a later step will not report an earlier one: it was lost, or the ranks sampled
        different steps.
        """
        newest = sorted(self._newest.values())
        for step, rows in [*self._pending.items()]:
            num_reached = len(newest) - bisect_left(newest, step)  # ranks that have reported this step or a later one
            if num_reached > num_ranks(rows):
                del self._pending[step]
        for step in [*self._pending][: -self._max_pending]:
            del self._pending[step]

    def _append(self, step: int) -> AlignedStep:
        rows = self._pending.pop(step)
        previous = self.steps[-1].step if self.steps else step - 1
        apart = step - previous
        stands_for = apart if 0 < apart <= _MAX_APART else 1  # after a gap it stands for itself only
        aligned = align_rows(step, rows, self.world_size, stands_for)
        self.steps.append(aligned)
        return aligned


def _last_of_each_rank(parts: Sequence[StepRows]) -> list[StepRows]:
    """Return the rows without those that later rows of the same ranks replace, because each keeps a matrix alive."""
    newest: list[StepRows] = []
    known: set[int] = set()
    for part in reversed(parts):
        ranks = {*part.ranks.tolist()}
        if not ranks <= known:
            newest.append(part)
            known |= ranks
    return newest[::-1]
