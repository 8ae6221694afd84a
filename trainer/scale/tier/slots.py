"""Rows in memory: each row has a slot, and the rows that were used longest ago leave first. Pure.

A claim has the rows of one lookup. A claim ahead has the rows of the next lookup. It leaves the rows of the last claim
in memory, because their update is still to come.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
_MAX_QUEUE = 4  # entries for each slot; if the queue has more, those that a later claim has replaced are dropped
INDEX_BYTES = 4  # of each row: its slot
SLOT_BYTES = 8 + 8 + 1 + 8 * _MAX_QUEUE  # of each slot: its row, its last claim, whether it changed, and the queue


class Claim(NamedTuple):
    """The rows to move, so that the claimed rows are in memory: first those that leave it, then those that enter it."""

    leaving_rows: Numbers  # to write to the disk: only changed ones, sorted
    leaving_slots: Numbers
    entering_rows: Numbers  # to read from the disk, sorted
    entering_slots: Numbers


class Slots:
    """The slots of a group of tables."""

    def __init__(self, num_rows: int, num_slots: int) -> None:
        self.num_slots = num_slots
        self.slot_of = np.full(num_rows, -1, np.int32)  # -1: not in memory
        self.changed = np.zeros(num_slots, bool)  # since the row was read
        self._row_of = np.full(num_slots, -1, np.int64)
        self._last_claim = np.full(num_slots, -1, np.int64)  # the number of the last claim that used the slot
        self._queue: deque[tuple[int, Numbers]] = deque()  # numbers of claims with their slots, the oldest first
        self._queue_size = 0  # slots in the queue
        self._num_filled = 0  # slots that ever had a row
        self._num_claims = 0
        self.num_claimed = 0  # slots that the last claim used

    def claim(self, rows: Numbers) -> Claim:
        """Give each of these distinct, sorted rows a slot. There must not be more rows than slots."""
        self._num_claims += 1
        missing, _ = self._use_present(rows)
        return self._assign_slots(missing, before=self._num_claims)

    def claim_ahead(self, rows: Numbers) -> Claim:
        """Give a slot to as many of these distinct, sorted rows as fit beside the rows of the last claim.

        A later `claim` gives slots to the rest.
        """
        last, num_last = self._num_claims, self.num_claimed
        self._num_claims += 1
        missing, num_new = self._use_present(rows)
        return self._assign_slots(missing[: self.num_slots - num_last - num_new], before=last)

    def changed_rows(self, first: int, num_rows: int) -> tuple[Numbers, Numbers]:
        """Return the changed rows of a range that are in memory, sorted, with their slots."""
        slots = self.slot_of[first : first + num_rows]
        places = np.flatnonzero(slots >= 0)
        places = places[self.changed[slots[places]]]
        return places + first, slots[places].astype(np.int64)

    def _use_present(self, rows: Numbers) -> tuple[Numbers, int]:
        """Use the slots of the rows that have one.

        Return the rows without a slot, and the number of used slots that the claim before did not use.
        """
        slots = self.slot_of[rows]
        is_missing = slots < 0
        present = slots[~is_missing].astype(np.int64)
        num_new = int(np.count_nonzero(self._last_claim[present] < self._num_claims - 1))
        self.num_claimed = len(present)
        self._use(present)
        return rows[is_missing], num_new

    def _assign_slots(self, missing: Numbers, before: int) -> Claim:
        """Give these rows the slots that were used longest ago; their last use was before claim `before`."""
        slots = self._pop_slots(len(missing), before)
        previous_rows = self._row_of[slots]
        was_changed = self.changed[slots]
        self.slot_of[previous_rows[previous_rows >= 0]] = -1
        self.slot_of[missing], self._row_of[slots], self.changed[slots] = slots, missing, False
        self._use(slots)
        self.num_claimed += len(missing)
        leaving_rows, leaving_slots = previous_rows[was_changed], slots[was_changed]
        order = np.argsort(leaving_rows)
        return Claim(leaving_rows[order], leaving_slots[order], entering_rows=missing, entering_slots=slots)

    def _use(self, slots: Numbers) -> None:
        self._last_claim[slots] = self._num_claims
        self._queue.append((self._num_claims, slots))
        self._queue_size += len(slots)
        if self._queue_size > _MAX_QUEUE * self.num_slots:
            self._queue = deque((claim, self._not_used_since(claim, slots)) for claim, slots in self._queue)
            self._queue_size = sum(len(slots) for _, slots in self._queue)

    def _not_used_since(self, claim: int, slots: Numbers) -> Numbers:
        """Return the slots that no later claim has used."""
        unused: Numbers = slots[self._last_claim[slots] == claim]
        return unused

    def _pop_slots(self, num_rows: int, before: int) -> Numbers:
        """Return slots for this number of rows: empty slots, then the slots that were used longest ago."""
        first_empty = self._num_filled
        self._num_filled = min(first_empty + num_rows, self.num_slots)
        popped = [np.arange(first_empty, self._num_filled)]
        num_missing = num_rows - len(popped[0])
        while num_missing:
            claim, slots = self._queue.popleft()
            self._queue_size -= len(slots)
            assert claim < before, "more rows than slots"
            slots = self._not_used_since(claim, slots)
            if len(slots) > num_missing:
                self._queue.appendleft((claim, slots[num_missing:]))
                self._queue_size += len(slots) - num_missing
                slots = slots[:num_missing]
            popped.append(slots)
            num_missing -= len(slots)
        return np.concatenate(popped)
