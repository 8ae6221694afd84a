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
_STALE = 4  # × the number of slots: when the queue has more entries than that, outdated ones are dropped
INDEX_BYTES = 4  # of each row: its slot
SLOT_BYTES = 8 + 8 + 1 + 8 * _STALE  # of each slot: its row, its last claim, whether it changed, and the queue at most


class Claim(NamedTuple):
    """The moves after which the claimed rows are in memory: first write, then read."""

    written: Numbers  # changed rows that leave, sorted
    written_slots: Numbers
    read: Numbers  # rows that come, sorted
    read_slots: Numbers


class Slots:
    """The slots of a group of tables."""

    def __init__(self, num_rows: int, num_slots: int) -> None:
        self.num_slots = num_slots
        self.slot_of = np.full(num_rows, -1, np.int32)  # -1: not in memory
        self.changed = np.zeros(num_slots, bool)  # since the row was read
        self._row_of = np.full(num_slots, -1, np.int64)
        self._used = np.full(num_slots, -1, np.int64)  # the last claim that used the slot
        self._queue: deque[tuple[int, Numbers]] = deque()  # claims with their slots, the oldest first
        self._queued = 0  # slots in the queue
        self._num_taken = 0  # slots that ever had a row
        self._claims = 0
        self.num_claimed = 0  # slots that the last claim used

    def claim(self, rows: Numbers) -> Claim:
        """Give each of these distinct, sorted rows a slot. There must not be more rows than slots."""
        self._claims += 1
        missing, _ = self._use_present(rows)
        return self._bring(missing, before=self._claims)

    def claim_ahead(self, rows: Numbers) -> Claim:
        """Give a slot to as many of these distinct, sorted rows as fit beside the rows of the last claim.

        `claim` brings the other rows later.
        """
        last, num_last = self._claims, self.num_claimed
        self._claims += 1
        missing, num_new = self._use_present(rows)
        return self._bring(missing[: self.num_slots - num_last - num_new], before=last)

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
        num_new = int(np.count_nonzero(self._used[present] < self._claims - 1))
        self.num_claimed = len(present)
        self._use(present)
        return rows[is_missing], num_new

    def _bring(self, missing: Numbers, before: int) -> Claim:
        """Give these rows the slots that were used longest ago; their last use was before claim `before`."""
        taken = self._take(len(missing), before)
        left = self._row_of[taken]
        was_changed = self.changed[taken]
        self.slot_of[left[left >= 0]] = -1
        self.slot_of[missing], self._row_of[taken], self.changed[taken] = taken, missing, False
        self._use(taken)
        self.num_claimed += len(missing)
        order = np.argsort(left[was_changed])
        return Claim(left[was_changed][order], taken[was_changed][order], missing, taken)

    def _use(self, slots: Numbers) -> None:
        self._used[slots] = self._claims
        self._queue.append((self._claims, slots))
        self._queued += len(slots)
        if self._queued > _STALE * self.num_slots:
            self._queue = deque((claim, self._not_used_since(claim, slots)) for claim, slots in self._queue)
            self._queued = sum(len(slots) for _, slots in self._queue)

    def _not_used_since(self, claim: int, slots: Numbers) -> Numbers:
        """Return the slots that no later claim has used."""
        unused: Numbers = slots[self._used[slots] == claim]
        return unused

    def _take(self, num_rows: int, before: int) -> Numbers:
        """Return slots for this number of rows: empty slots, then the slots that were used longest ago."""
        first = self._num_taken
        self._num_taken = min(first + num_rows, self.num_slots)
        taken = [np.arange(first, self._num_taken)]
        num_missing = num_rows - len(taken[0])
        while num_missing:
            claim, slots = self._queue.popleft()
            self._queued -= len(slots)
            assert claim < before, "more rows than slots"
            slots = self._not_used_since(claim, slots)
            if len(slots) > num_missing:
                self._queue.appendleft((claim, slots[num_missing:]))
                self._queued += len(slots) - num_missing
                slots = slots[:num_missing]
            taken.append(slots)
            num_missing -= len(slots)
        return np.concatenate(taken)
