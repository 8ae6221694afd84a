"""A kernel whose rows are on a disk, with a cache in memory. Its results equal those of `TorchKernel` to the bit.

A lookup claims the rows of its bags; the update that follows finds them in memory. A prefetch between the two claims
the rows of the next lookup, and a thread moves them. Gradients are merged in the order of rows, never of slots. If a
batch has more rows than the cache has slots, the rows are claimed in pieces: for a lookup by bags, so that each sum is
computed as a whole, and for an update by rows.

Shapes: G bags, N rows looked up, U distinct rows among them, D columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import zmon
from trainer.errors import ConfigError
from trainer.kernel import Bags, Merged, Precision, TorchKernel
from trainer.optimizers import OptimizerConfig
from trainer.scale.tier.row_file import Records, RowFile, RowNumbers
from trainer.scale.tier.slots import INDEX_BYTES, SLOT_BYTES, Claim, Numbers, Slots


class TieredKernel(TorchKernel):
    """A weight of any number of rows on a disk; `weight` and `state` have the rows that are in slots."""

    def __init__(
        self,
        optimizer: OptimizerConfig,
        shape: tuple[int, int],
        precision: Precision,
        device: torch.device,
        memory: int,
        folder: Path,
    ) -> None:
        """`shape` is (rows, D). `memory` is the bytes for the cache and its index. Raises ConfigError, TierError."""
        num_rows, dim = shape
        record = record_of(dim, precision, optimizer)
        slot_bytes = record.itemsize + SLOT_BYTES
        num_slots = min(num_rows, (memory - INDEX_BYTES * num_rows) // slot_bytes)
        if num_slots < 1:
            least = INDEX_BYTES * num_rows + slot_bytes
            cause = f"it has to hold at least {least:,} bytes for {num_rows:,} rows of {dim} columns"
            raise ConfigError("embedding.memory is too small", cause, "Use more memory, or more ranks")
        super().__init__(optimizer, (num_slots, dim), precision, device)
        self._slots = Slots(num_rows, num_slots)
        self._file = RowFile(folder, num_rows, record)
        self._thread = ThreadPoolExecutor(1, "rows")
        self._read_task: Future[Records] = self._thread.submit(np.empty, 0, self._file.record)  # nothing yet
        self._write_task: Future[None] = self._thread.submit(lambda: None)
        self._lookup_fits = False  # the last lookup: all its rows are in memory
        self._prefetched: Bags | None = None  # the bags of the last prefetch
        self._prefetched_rows: Numbers = np.empty(0, np.int64)  # its distinct rows
        self.rows_claimed = 0  # distinct rows of all lookups so far
        self.rows_from_disk = 0  # part of `rows_claimed`
        self.is_too_small = False  # the rows of two batches were once more than the slots

    @property
    def locked_ratio(self) -> float:
        """The share of the slots that the last claim used, between 0 and 1."""
        return self._slots.num_claimed / self._slots.num_slots

    def prefetch(self, bags: Bags) -> None:
        """Begin to bring the rows of the next lookup into memory, as many as fit beside the rows of the last lookup.

        A thread moves them. The next call that needs rows raises the thread's error.
        """
        if self._lookup_fits:
            distinct = self._distinct(bags)
            self._prefetched, self._prefetched_rows = bags, distinct
            claim = self._slots.claim_ahead(distinct)
            self._count(claim)
            self.is_too_small |= bool((self._slots.slot_of[distinct] < 0).any())
            self._move(claim)

    def lookup(self, bags: Bags) -> Tensor:
        """Return the sum of the rows of each bag (G, D), 0 for an empty bag."""
        distinct = self._prefetched_rows if bags is self._prefetched else self._distinct(bags)
        self._lookup_fits = len(distinct) <= self._slots.num_slots
        self.is_too_small |= not self._lookup_fits
        if self._lookup_fits:
            self._claim(distinct, "embedding")
            return super().lookup(self._in_slots(bags))
        pieces = [self._lookup_piece(piece) for piece in _pieces(bags, self._slots.num_slots)]
        return torch.cat(pieces) if pieces else super().lookup(bags)

    def apply(
        self, merged: Merged, learning_rate: float, mean_squares: Tensor | None = None, slots: Tensor | None = None
    ) -> None:
        """Update these rows, which are sorted."""
        assert slots is None  # this kernel finds them
        rows, gradient = merged
        size = self._slots.num_slots
        for first in range(0, len(rows), size):
            piece = slice(first, first + size)
            row_numbers = rows[piece].cpu().numpy()
            if self._lookup_fits:
                slots_of_rows = self._slots.slot_of[row_numbers].astype(np.int64)
            else:
                slots_of_rows = self._claim(row_numbers, "optimizer")
            squares = None if mean_squares is None else mean_squares[piece]
            index = torch.from_numpy(slots_of_rows).to(self.weight.device)
            super().apply(Merged(rows[piece], gradient[piece]), learning_rate, squares, index)
            self._slots.changed[slots_of_rows] = True

    def read(self, first: int, num_rows: int) -> tuple[Tensor, Tensor]:
        """Return copies of the weight (n, D) and the optimizer state (n, …) of n rows from `first` on."""
        records = self.records(first, num_rows)
        return self.tensor(records["weight"]), self.tensor(records["state"])

    def write(self, first: int, weight: Tensor, state: Tensor | None = None) -> None:
        """Set the weight (n, D) and the optimizer state (n, …), which is 0 if not given, of rows from `first` on."""
        records = np.zeros(len(weight), self._file.record)
        records["weight"] = array(weight.cpu().to(self.weight.dtype))
        if state is not None:
            records["state"] = state.cpu().numpy()
        self.set_records(first, records)

    def records(self, first: int, num_rows: int) -> Records:
        """Return copies of rows from `first` on."""
        self._wait()
        records = self._file.read(np.arange(first, first + num_rows))
        changed, slots = self._slots.changed_rows(first, num_rows)
        records[changed - first] = self._copy_slots(slots)
        return records

    def set_records(self, first: int, records: Records) -> None:
        """Set rows from `first` on, on the disk and in memory."""
        self._wait()
        rows = np.arange(first, first + len(records))
        self._file.write(rows, records)
        slots = self._slots.slot_of[rows]
        in_memory = slots >= 0
        self._fill_slots(slots[in_memory].astype(np.int64), records[in_memory])
        self._slots.changed[slots[in_memory]] = False

    def tensor(self, field: NDArray[Any]) -> Tensor:
        """Return a field of records as a tensor, the reverse of `array`."""
        tensor = torch.from_numpy(np.array(field, order="C"))  # a copy: one record alone keeps the stride of records
        return tensor if tensor.is_floating_point() else tensor.view(self.weight.dtype)

    def _lookup_piece(self, bags: Bags) -> Tensor:
        """Look up bags whose distinct rows fit into the slots, or a single bag."""
        distinct = self._distinct(bags)
        if len(distinct) <= self._slots.num_slots:
            self._claim(distinct, "embedding")
            return super().lookup(self._in_slots(bags))
        # A single bag with more rows than slots: its rows are copied.
        copies = np.empty(len(distinct), self._file.record)
        for first in range(0, len(distinct), self._slots.num_slots):
            piece = slice(first, first + self._slots.num_slots)
            copies[piece] = self._copy_slots(self._claim(distinct[piece], "embedding"))
        weight = self.tensor(copies["weight"]).to(self.weight.device)
        rows = torch.from_numpy(np.searchsorted(distinct, bags.rows.cpu().numpy()).astype(np.int32))
        return self._precision.sums(weight, Bags(rows.to(self.weight.device), bags.lengths))

    def _in_slots(self, bags: Bags) -> Bags:
        """Return the bags with the slots of their rows, all of which are in memory."""
        slots = torch.from_numpy(self._slots.slot_of[bags.rows.cpu().numpy()])
        return Bags(slots.to(bags.rows.device, bags.lengths.dtype), bags.lengths)

    def _claim(self, rows: RowNumbers, phase: str) -> Numbers:
        """Bring these distinct, sorted rows into memory and return their slots. `phase` is the phase after the wait."""
        claim = self._slots.claim(rows)
        self.rows_claimed += len(rows)
        self._count(claim)
        if len(claim.entering_rows):
            self._move(claim)
        if not self._read_task.done():
            zmon.phase("offload")
            wait([self._read_task])
            zmon.phase(phase)
        self._read_task.result()
        return self._slots.slot_of[rows].astype(np.int64)

    def _count(self, claim: Claim) -> None:
        """Count the rows that move, and tell zmon their bytes."""
        num_read, num_written, row_bytes = len(claim.entering_rows), len(claim.leaving_rows), self._file.record.itemsize
        self.rows_from_disk += num_read
        zmon.work(offload_read=num_read * row_bytes, offload_written=num_written * row_bytes)

    def _move(self, claim: Claim) -> None:
        """Let the thread read the rows that enter memory, and then write the rows that left it.

        The lookup waits for the read only. Each task raises the error of the task before it, so no error is lost.
        """
        self._read_task = self._thread.submit(self._read, claim, self._write_task)
        self._write_task = self._thread.submit(self._write, claim.leaving_rows, self._read_task)

    def _read(self, claim: Claim, previous_write: Future[None]) -> Records:
        """Read the claimed rows into their slots. Return the rows that were in these slots, to write them."""
        previous_write.result()
        leaving = self._copy_slots(claim.leaving_slots)
        self._fill_slots(claim.entering_slots, self._file.read(claim.entering_rows))
        return leaving

    def _write(self, rows: Numbers, read_task: Future[Records]) -> None:
        self._file.write(rows, read_task.result())

    def _wait(self) -> None:
        """Wait for the thread. Raises TierError."""
        self._write_task.result()

    @staticmethod
    def _distinct(bags: Bags) -> Numbers:
        """Return the distinct rows of the bags, sorted."""
        return np.unique(bags.rows.cpu().numpy())

    def _copy_slots(self, slots: Numbers) -> Records:
        """Return copies of the rows in these slots."""
        index = torch.from_numpy(slots).to(self.weight.device)
        records = np.empty(len(slots), self._file.record)
        records["weight"] = array(self.weight[index].cpu())
        records["state"] = self.state[index].cpu().numpy()
        return records

    def _fill_slots(self, slots: Numbers, records: Records) -> None:
        """Write rows into these slots."""
        index = torch.from_numpy(slots).to(self.weight.device)
        self.weight[index] = self.tensor(records["weight"]).to(self.weight.device)
        self.state[index] = self.tensor(records["state"]).to(self.weight.device)


def record_of(dim: int, precision: Precision, optimizer: OptimizerConfig) -> np.dtype[np.void]:
    """Return the type of a row of D columns on a disk: its weight and its optimizer state."""
    weight, state = (array(torch.empty(0, dtype=dtype)).dtype for dtype in (precision.dtype, precision.compute_dtype))
    return np.dtype([("weight", weight, (dim,)), ("state", state, optimizer.state_shape((1, dim))[1:])])


def array(tensor: Tensor) -> NDArray[Any]:
    """Return a tensor as numpy can hold it: bfloat16 as its bits."""
    values: NDArray[Any] = (tensor.view(torch.int16) if tensor.dtype == torch.bfloat16 else tensor).numpy()
    return values


def _pieces(bags: Bags, num_rows: int) -> Iterator[Bags]:
    """Divide bags into pieces of at most `num_rows` rows; a bag with more rows is a piece of its own."""
    offsets = bags.offsets.cpu().numpy().astype(np.int64)
    first = 0
    while first < len(bags.lengths):
        end = max(first + 1, int(np.searchsorted(offsets, offsets[first] + num_rows, side="right")) - 1)
        yield Bags(bags.rows[offsets[first] : offsets[end]], bags.lengths[first:end])
        first = end
