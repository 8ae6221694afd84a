"""The recent steps of a job, aligned over all ranks.

Pure. Steps are matched by their number, never by a clock.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from zmon.job.alignment import Records, align_records, num_ranks
from zmon.job.step_batch import batches
from zmon.schema.aligned_step import AlignedStep
from zmon.schema.step_columns import StepColumns

MIN_STEPS = 64  # the fewest aligned steps in memory
_MAX_RECORDS = 1024  # with few ranks more steps are needed to estimate the noise
_MAX_STEPS = 256
_MAX_APART = 512  # the most steps that an agent leaves out between two records
# Steps that wait for the record of some rank. If the agent of one host is silent, the steps of all other ranks wait. A
# record takes some hundred bytes.
_MAX_PENDING = 512
_MAX_PENDING_RECORDS = 32_768
_MAX_NEW = 4096  # steps in one pass; an agent returns about eight, unless it wants to keep the hub busy
_MIN_PENDING = 16  # twice as many as a request of the hub returns


@dataclass
class History:
    """The recent aligned steps of one launch."""

    world_size: int
    steps: deque[AlignedStep] = field(default_factory=deque)
    _pending: dict[int, list[Records]] = field(default_factory=dict)  # step → its records so far
    _newest: dict[int, int] = field(default_factory=dict)  # rank → the last step that it reported

    def __post_init__(self) -> None:
        num_steps = min(max(MIN_STEPS, _MAX_RECORDS // self.world_size), _MAX_STEPS)
        self.steps = deque(self.steps, maxlen=num_steps)
        self._max_pending = max(_MIN_PENDING, min(_MAX_PENDING_RECORDS // self.world_size, _MAX_PENDING))

    def add(self, columns: Iterable[StepColumns], ranks: Mapping[str, int]) -> list[AlignedStep]:
        """Add records. Return the steps that are complete on all ranks now, oldest first.

        `ranks` maps the run uids of this launch to its ranks. The records of a rank may be in any order, but all are
        newer than those that were added before.
        """
        complete: set[int] = set()
        for batch in batches(columns, ranks, self.world_size):
            order = np.lexsort((batch.steps, batch.ranks))  # by rank, then by step
            ends = np.flatnonzero(np.diff(batch.ranks[order], append=-1))
            last = order[ends]
            self._newest.update(zip(batch.ranks[last].tolist(), batch.steps[last].tolist(), strict=True))
            numbers, of_row = np.unique(batch.steps, return_inverse=True)
            first = max(len(numbers) - _MAX_NEW, 0)
            for place, step in enumerate(numbers[first:].tolist(), first):
                records = self._pending.setdefault(step, [])
                records.append(Records(batch, np.flatnonzero(of_row == place)))
                number = num_ranks(records)
                if number < sum(len(part.rows) for part in records):
                    records[:] = _last_of_each_rank(records)
                if number == self.world_size:
                    complete.add(step)
        added = [self._append(step) for step in sorted(complete)]
        self._drop_incomplete()
        return added

    def _drop_incomplete(self) -> None:
        """Drop the steps that stay incomplete, and the first ones of too many.

        A rank that has reported a later step will not report an earlier one: its record was lost, or the ranks sampled
        different steps.
        """
        newest = sorted(self._newest.values())
        for step, records in [*self._pending.items()]:
            num_reached = len(newest) - bisect_left(newest, step)  # ranks that have reported this step or a later one
            if num_reached > num_ranks(records):
                del self._pending[step]
        for step in [*self._pending][: -self._max_pending]:
            del self._pending[step]

    def _append(self, step: int) -> AlignedStep:
        records = self._pending.pop(step)
        previous = self.steps[-1].step if self.steps else step - 1
        apart = step - previous
        stands_for = apart if 0 < apart <= _MAX_APART else 1  # after a gap it stands for itself only
        aligned = align_records(step, records, self.world_size, stands_for)
        self.steps.append(aligned)
        return aligned


def _last_of_each_rank(parts: Sequence[Records]) -> list[Records]:
    """Return the records without those that later ones of the same ranks replace. Each of them keeps a batch alive."""
    newest: list[Records] = []
    known: set[int] = set()
    for part in reversed(parts):
        ranks = {*part.ranks.tolist()}
        if not ranks <= known:
            newest.append(part)
            known |= ranks
    return newest[::-1]
