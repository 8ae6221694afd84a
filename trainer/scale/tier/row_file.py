"""Rows on a disk: one flat file of fixed rows, each with its weight and its optimizer state side by side.

The file has no name: nothing is left of it when its process ends, however that ends. Its space is allocated at once, so
that a full disk is known before training begins.

Rows are read and written by system calls: if the file were mapped, an error of the disk would be a SIGBUS, which ends
the process without a message. A row never moves.
"""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryFile

import numpy as np
from numpy.typing import NDArray

from trainer.errors import TrainerError
from trainer.scale.tier.many_calls import READ, WRITE, move, threads

RowNumbers = NDArray[np.int64]
Records = NDArray[np.void]  # fields `weight` (D) and `state`

_MAX_BYTES = 1 << 30  # the kernel moves less than 2 GiB for one request


class TierError(TrainerError):
    """The file of rows cannot be written or read."""


class RowFile:
    """The rows of one group of tables."""

    def __init__(self, folder: Path, num_rows: int, record: np.dtype[np.void]) -> None:
        """Allocate the file in this folder, which is made if it does not exist. Raises TierError."""
        self._folder, self.record = folder, record
        self._max_rows = max(1, _MAX_BYTES // self.record.itemsize)  # of one request
        try:
            folder.mkdir(parents=True, exist_ok=True)
            threads()  # raises now if the kernel has no room for their requests
            self._file = TemporaryFile(buffering=0, dir=folder)  # noqa: SIM115  closes itself with its owner
            self._descriptor = self._file.fileno()
            os.posix_fadvise(self._descriptor, 0, 0, os.POSIX_FADV_RANDOM)  # do not read the neighbours of a row
            os.posix_fallocate(self._descriptor, 0, max(1, num_rows * self.record.itemsize))
        except OSError as error:
            gigabytes = num_rows * self.record.itemsize / 1e9
            raise self._error(f"cannot allocate {gigabytes:.3g} GB of rows", error) from error

    def read(self, rows: RowNumbers) -> Records:
        """Return these distinct rows, which are sorted. Raises TierError."""
        records = np.empty(len(rows), self.record)
        self._move(READ, rows, records, "read")
        return records

    def write(self, rows: RowNumbers, records: Records) -> None:
        """Write these distinct rows, which are sorted. Raises TierError."""
        self._move(WRITE, rows, np.ascontiguousarray(records), "write")

    def _move(self, opcode: int, rows: RowNumbers, records: Records, verb: str) -> None:
        """Read into these records, or write them."""
        try:
            for first in range(0, len(rows), self._max_rows):
                piece = slice(first, first + self._max_rows)
                move(opcode, self._descriptor, *self._requests(rows[piece], records[piece]))
        except OSError as error:
            raise self._error(f"cannot {verb} rows", error) from error

    def _requests(self, rows: RowNumbers, records: Records) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        """Return offsets in the file and the bytes at each of them. A range of rows is one request."""
        is_range = int(rows[-1] - rows[0]) + 1 == len(rows)
        offsets: NDArray[np.int64] = (rows[:1] if is_range else rows).astype(np.int64) * self.record.itemsize
        return offsets, records.view(np.uint8).reshape(len(offsets), -1)

    def _error(self, failure: str, error: OSError) -> TierError:
        next_step = "Free some space, check the disk, or choose another folder with --set embedding.tier.folder=…"
        return TierError(f"{failure} in {self._folder}", error.strerror or str(error), next_step)
