"""Samples from rows of Criteo: a label, 13 dense features, 26 categories. tsv.py and shards.py read the rows.

When a batch is built, a category becomes the id of a row: the category modulo the number of rows of its table. A
missing category becomes an empty bag.

Rows are used in order and repeat. Training omits the rows held out for evaluation: every tenth row at a ratio of 0.1.
They are spread over the whole file, because Criteo's rows are in the order of time.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from trainer.batch import Batch
from trainer.errors import DataError, require

DENSE_FEATURES = 13
SPARSE_FEATURES = 26
ROW = np.dtype(  # 164 bytes, in memory and in shards alike
    [
        ("label", "<f4"),
        ("dense", "<f4", (DENSE_FEATURES,)),
        ("categories", "<u4", (SPARSE_FEATURES,)),
        ("present", "<u4"),  # bit f: the row has category f
    ]
)
BITS = np.arange(SPARSE_FEATURES, dtype=np.uint32)


@dataclass(frozen=True)
class CriteoConfig:
    file: str = ""  # a TSV, a directory of trainer.prepare, or MLPerf's multi-hot files; empty: synthetic samples
    strict: bool = False  # stop at a malformed row instead of skipping it
    held_out: float = 0.0  # ratio of a TSV's rows held out for evaluation; a prepared directory has its own
    key_file: str = ""  # key of an encrypted directory: a file of mode 0600, env:VARIABLE or command:COMMAND

    def __post_init__(self) -> None:
        require(0 <= self.held_out <= 0.5, "criteo.held_out", self.held_out, "from 0 to 0.5")


class RowSequence(Protocol):
    """Rows of dtype ROW, in memory or on disk."""

    def __len__(self) -> int: ...

    def __getitem__(self, span: slice) -> NDArray[np.void]: ...


class Criteo:
    """A source that repeats rows in order; a global batch may reach past the last row to the first ones."""

    def __init__(
        self,
        name: str,
        rows: RowSequence,
        held_out_rows: RowSequence,
        table_rows: Sequence[int],
        global_batch: int,
        skipped: str = "",
    ) -> None:
        self.name = name  # the name of the data in messages
        self.rows, self.held_out_rows = rows, held_out_rows
        self.table_rows = np.array(table_rows)
        self.global_batch = global_batch
        self.skipped = skipped  # a message with the number of skipped rows
        self.num_samples: int | None = len(rows)

    def batch(self, step: int, start: int, size: int) -> Batch:
        """Return samples `start` to `start + size` of the global batch of this step."""
        parts = spans(step * self.global_batch + start, size, len(self.rows))
        rows = np.concatenate([np.empty(0, ROW), *(self.rows[part] for part in parts)])
        present = (rows["present"] >> BITS[:, None] & 1).astype(bool)  # (F, B)
        ids = rows["categories"].astype(np.int64) % self.table_rows  # (B, F)
        return Batch(
            dense=torch.from_numpy(rows["dense"].copy()),
            ids=torch.from_numpy(ids.T[present]),
            lengths=torch.from_numpy(present.astype(np.int64)),
            labels=torch.from_numpy(rows["label"].copy()),
        )

    def held_out(self) -> "Criteo":
        """Return the source of the rows that are never trained on. Raises DataError if there are none."""
        if not len(self.held_out_rows):
            next_step = "Set criteo.held_out for a TSV, or prepare it with a larger --held-out"
            raise DataError(f"{self.name} has no rows for evaluation", "none of its rows were held out", next_step)
        return Criteo(self.name, self.held_out_rows, np.empty(0, ROW), self.table_rows.tolist(), self.global_batch)


def spans(first: int, size: int, num_rows: int) -> Iterator[slice]:
    """Yield the slices of `size` rows from `first` on, if `num_rows` rows repeat for ever."""
    while size:
        start = first % num_rows
        length = min(size, num_rows - start)
        yield slice(start, start + length)
        first, size = first + length, size - length


def pieces(span: slice, first_rows: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Yield the parts of a span of rows in files: the number of the file, the first row there, the number of rows.

    `first_rows` has the first row of each file, and the number of all rows as its last item.
    """
    start = span.start
    while start < span.stop:
        file = bisect_right(first_rows, start) - 1
        stop = min(span.stop, first_rows[file + 1])
        yield file, start - first_rows[file], stop - start
        start = stop


def is_held_out(first: int, size: int, ratio: float) -> NDArray[np.bool_]:
    """Return the mask (size,) of held-out rows among valid rows `first` to `first + size`; ratio at most 0.5."""
    num_held_out = np.floor(np.arange(first, first + size + 1) * ratio)
    held_out: NDArray[np.bool_] = num_held_out[1:] > num_held_out[:-1]
    return held_out
