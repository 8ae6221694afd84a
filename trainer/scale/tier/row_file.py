"""Rows on a disk: one flat file of fixed rows, each with its weight and its optimizer state side by side.

The file has no name: nothing is left of it when its process ends, however that ends (O_TMPFILE, open(2)). Its space is
allocated at once, so that a full disk is known before training begins.

Calls are `preadv` and `pwritev` and not a map of the file, because an error of the disk under a map is a SIGBUS, which
ends the process without a word. Neighbouring rows are one call. The records of a row never move.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trainer.errors import TrainerError

Rows = NDArray[np.int64]
Records = NDArray[np.void]  # fields `weight` (D) and `state`

_PAGE = 4096  # bytes that a disk reads at least; rows within them are read together
_CALL = 1 << 20  # bytes of one call at most


class TierError(TrainerError):
    """The file of rows cannot be written or read."""


class RowFile:
    """The rows of one group of tables."""

    def __init__(self, folder: Path, num_rows: int, dim: int, dtype: np.dtype[np.floating]) -> None:
        """Allocate the file in this folder, which is made if it does not exist. Raises TierError."""
        self._folder, self._file = folder, -1
        self.record = np.dtype([("weight", dtype, (dim,)), ("state", dtype)])
        self._gap, self._longest = (max(1, size // self.record.itemsize) for size in (_PAGE, _CALL))  # rows
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o600)
            os.posix_fallocate(self._file, 0, max(1, num_rows * self.record.itemsize))
        except OSError as error:
            gigabytes = num_rows * self.record.itemsize / 1e9
            raise self._error(f"cannot allocate {gigabytes:.3g} GB of rows", error) from error

    def __del__(self) -> None:
        """Free the space."""
        if self._file >= 0:
            os.close(self._file)

    def read(self, rows: Rows) -> Records:
        """Return these distinct rows, which are sorted. Raises TierError."""
        records = np.empty(len(rows), self.record)
        for begin, end in _runs(rows, self._gap, self._longest):
            first, number = rows[begin], rows[end - 1] - rows[begin] + 1
            if number == end - begin:
                self._each(os.preadv, records[begin:end], first, "read")
            else:  # with the rows between them
                whole = np.empty(number, self.record)
                self._each(os.preadv, whole, first, "read")
                records[begin:end] = whole[rows[begin:end] - first]
        return records

    def write(self, rows: Rows, records: Records) -> None:
        """Write these distinct rows, which are sorted. Raises TierError."""
        for begin, end in _runs(rows, 1, self._longest):
            self._each(os.pwritev, records[begin:end], rows[begin], "write")

    def _each(self, call: Callable[..., int], records: Records, first: int, verb: str) -> None:
        """Read into these records, or write them, from the first row on; the kernel may do a part of it at a time."""
        left, offset = memoryview(records.view(np.uint8).data), int(first) * self.record.itemsize
        while left:
            try:
                done = call(self._file, [left], offset)
            except OSError as error:
                raise self._error(f"cannot {verb} rows", error) from error
            if not done:
                raise self._error(f"cannot {verb} rows", OSError(0, "the file is shorter than it was made"))
            left, offset = left[done:], offset + done

    def _error(self, failure: str, error: OSError) -> TierError:
        next_step = "Free some space, check the disk, or choose another folder with --set embedding.tier.folder=…"
        return TierError(f"{failure} in {self._folder}", error.strerror or str(error), next_step)


def _runs(rows: Rows, gap: int, longest: int) -> Iterator[tuple[int, int]]:
    """Yield the begin and the end of each run of sorted rows whose numbers are at most `gap` apart.

    The numbers of a run are less than `longest` apart.
    """
    breaks = np.flatnonzero(np.diff(rows) > gap) + 1
    for begin, end in pairwise([0, *breaks.tolist(), len(rows)] if len(rows) else []):
        while begin < end:
            cut = begin + int(np.searchsorted(rows[begin:end], rows[begin] + longest))
            yield begin, cut
            begin = cut
