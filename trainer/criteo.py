"""Samples out of a Criteo-Kaggle TSV: label, 13 integers, 26 hex categories, tab-separated, empty = missing.

The file is read into the memory of every rank when the run starts: 14 µs and 0.8 kB a row, of which
160 bytes stay, so it suits files of some million rows. Its rows are taken in order, again and again; a
global batch may reach over the end.

A dense feature is log(1 + max(x, 0)), 0 when missing. An id is the category modulo the table's rows, and a
missing category is an empty bag.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from trainer.batch import Batch
from trainer.errors import DataError

DENSE_FEATURES = 13
SPARSE_FEATURES = 26
COLUMNS = 1 + DENSE_FEATURES + SPARSE_FEATURES
MISSING = -1  # in place of an id
COMPLAINTS = 5  # bad rows that get a line of their own; the rest are only counted

LABEL, INTEGER, CATEGORY = rb"[01]", rb"(?:-?\d{1,18})?", rb"[0-9a-fA-F]{0,8}"
GOOD_ROW = re.compile(LABEL + (rb"\t" + INTEGER) * DENSE_FEATURES + (rb"\t" + CATEGORY) * SPARSE_FEATURES)
COLUMN_KINDS = (  # of each column: what it holds, its pattern
    ("a label, 0 or 1", LABEL),
    *[("an integer of up to 18 digits", INTEGER)] * DENSE_FEATURES,
    *[("a category of up to 8 hexadecimal digits", CATEGORY)] * SPARSE_FEATURES,
)


@dataclass(frozen=True)
class CriteoConfig:
    file: str = ""  # empty: train on synthetic data
    strict: bool = False  # stop at a malformed row instead of skipping it


class Criteo:
    """A source that repeats the good rows of a file in their order."""

    def __init__(
        self, config: CriteoConfig, rows: Sequence[int], global_batch: int, warn: Callable[[str], None]
    ) -> None:
        """Raises DataError if the file is unreadable, has no good row, or a bad one while strict."""
        labels, dense, categories, self.num_skipped = _read(config, warn)
        self.file = config.file
        self.global_batch = global_batch
        self.labels = np.array(labels, np.float32)  # (rows,)
        counts = np.frombuffer(dense, np.int64).reshape(-1, DENSE_FEATURES)
        self.dense = np.log1p(np.maximum(counts, 0)).astype(np.float32)
        ids = np.frombuffer(categories, np.int64).reshape(-1, SPARSE_FEATURES)
        self.ids = np.where(ids == MISSING, MISSING, ids % np.array(rows)).astype(np.int32)
        if self.num_skipped:
            warn(self.skipped())
        if len(labels) < global_batch:
            warn(f"{config.file}: {len(labels)} good rows, the global batch is {global_batch}: they repeat")

    def skipped(self) -> str:
        """How much of the file was left out."""
        num_rows = self.num_skipped + len(self.labels)
        return f"{self.file}: {self.num_skipped} malformed of {num_rows} rows skipped"

    def batch(self, step: int, start: int, size: int) -> Batch:
        """Samples `start` to `start + size` of the global batch of this step."""
        first = step * self.global_batch + start
        rows = np.arange(first, first + size) % len(self.labels)
        ids = self.ids[rows].T.astype(np.int64)  # (F, B)
        there = ids != MISSING
        return Batch(
            dense=torch.from_numpy(self.dense[rows]),
            ids=torch.from_numpy(ids[there]),
            lengths=torch.from_numpy(there.astype(np.int64)),
            labels=torch.from_numpy(self.labels[rows]),
        )


def check_file(file: str) -> None:
    """Refuse at once what cannot be read as a file; a pipe would give each rank a part of it."""
    path = Path(file)
    if not path.is_file():
        cause = "it is not a regular file" if path.exists() else "there is no such file"
        raise DataError(f"cannot read {file}", cause, "Give the path of a Criteo-Kaggle TSV with --data")


def _read(config: CriteoConfig, warn: Callable[[str], None]) -> tuple[array[int], array[int], array[int], int]:
    """Labels, integers and categories of the good rows, and how many bad ones were skipped."""
    labels, dense, categories, num_skipped = array("b"), array("q"), array("q"), 0
    for number, line in enumerate(_lines(config.file), start=1):
        row = line.rstrip(b"\r\n")
        if GOOD_ROW.fullmatch(row):
            label, *cells = row.split(b"\t")
            labels.append(int(label))
            dense.extend([int(cell or b"0") for cell in cells[:DENSE_FEATURES]])
            categories.extend([int(cell, 16) if cell else MISSING for cell in cells[DENSE_FEATURES:]])
            continue
        fault = f"{config.file}:{number}: {_fault(row)}"
        if config.strict:
            raise DataError(fault, "a malformed row ends a strict run", "Mend the row, or leave out --strict")
        num_skipped += 1
        if num_skipped <= COMPLAINTS:
            warn(f"{fault}: row skipped")
    if not labels:
        cause = f"all {num_skipped} rows are malformed" if num_skipped else "the file is empty"
        raise DataError(f"{config.file} has no good row", cause, "Give label, 13 integers and 26 hex categories")
    return labels, dense, categories, num_skipped


def _lines(file: str) -> Iterator[bytes]:
    try:
        with Path(file).open("rb") as lines:
            yield from lines
    except OSError as error:
        raise DataError(f"cannot read {file}", str(error.strerror), "Check the path and permissions") from error


def _fault(row: bytes) -> str:
    """Which column of a malformed row is at fault, counted from 1, and why."""
    cells = row.split(b"\t")
    if len(cells) != COLUMNS:
        column = min(len(cells), COLUMNS) + 1  # the first that is missing, or the first too many
        return f"column {column}: the row has {len(cells)} columns instead of {COLUMNS}"
    column, cell, kind = next(
        (column, cell, kind)
        for column, (cell, (kind, pattern)) in enumerate(zip(cells, COLUMN_KINDS, strict=True), start=1)
        if not re.fullmatch(pattern, cell)
    )
    return f"column {column}: {cell[:20].decode(errors='replace')!r} is not {kind}"
