"""Samples from MLPerf's multi-hot Criteo: three NumPy files a day, as its reference writes and reads them.

    DIR/day_0_dense.npy             (N, 13) float32
    DIR/day_0_labels.npy            (N, 1), 0 or 1
    DIR/day_0_sparse_multi_hot.npz  for each feature f an array f.npy, (N, ids of a bag) int32, not compressed
    DIR/day_1_dense.npy …

The last day is held out: its first half is for evaluation, and its second half is not used. An id becomes its value
modulo the rows of its table. Source: mlcommons/training, recommendation_v2 (multi_hot_criteo.py). Only the rows of the
current batch are read, so a day may be larger than memory.
"""

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from io import SEEK_CUR, SEEK_END
from itertools import accumulate
from pathlib import Path
from typing import IO, Any, Self
from zipfile import ZIP_STORED, BadZipFile, ZipFile

import numpy as np
import torch
from numpy.lib import format as npy
from numpy.typing import NDArray

from trainer.batch import Batch
from trainer.errors import DataError
from trainer.scale.criteo import DENSE_FEATURES, SPARSE_FEATURES, pieces, spans

_SPARSE = re.compile(r"day_(\d+)_sparse_multi_hot\.npz")
_NEXT_STEP = "Make the files with materialize_synthetic_multihot_dataset.py of mlcommons/training"
_LOCAL_HEADER = struct.Struct("<26xHH")  # of a ZIP entry: the lengths of its name and extra field (APPNOTE 4.3.7)


@dataclass(frozen=True)
class StoredMatrix:
    """A matrix in a file."""

    file: Path
    offset: int  # of its first byte
    dtype: np.dtype[Any]
    rows: int
    columns: int

    @classmethod
    def at(cls, file: Path, stream: IO[bytes]) -> Self:
        """Read the header of an array, which begins at the position of the stream. Raises ValueError."""
        version = npy.read_magic(stream)
        read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, in_columns, dtype = read_header(stream)
        if in_columns or not 1 <= len(shape) <= 2:
            raise ValueError(f"an array of shape {shape}{' in the order of columns' if in_columns else ''}")
        array = cls(file, stream.tell(), dtype, shape[0], shape[1] if len(shape) == 2 else 1)
        end = array.offset + array.rows * array.columns * dtype.itemsize
        if (size := stream.seek(0, SEEK_END)) < end:
            raise ValueError(f"it is cut: it has {size:,} bytes, and its array ends at {end:,}")
        return array

    def read(self, first: int, num_rows: int) -> NDArray[Any]:
        """Return rows `first` to `first + num_rows`, which must exist. Raises DataError if the file has changed."""
        offset = self.offset + first * self.columns * self.dtype.itemsize
        try:
            values: NDArray[Any] = np.fromfile(self.file, self.dtype, num_rows * self.columns, offset=offset)
            return values.reshape(num_rows, self.columns)
        except (OSError, ValueError) as error:
            next_step = "The file was complete when the run started"
            raise DataError(f"cannot read {self.file}", str(error), next_step) from error


@dataclass(frozen=True)
class Day:
    """The samples of one day."""

    dense: StoredMatrix
    labels: StoredMatrix
    sparse: tuple[StoredMatrix, ...]  # by feature

    @classmethod
    def open(cls, directory: Path, number: int) -> Self:
        """Read the headers of a day's files. Raises DataError if one is missing or does not fit the others."""
        file = directory / f"day_{number}_dense.npy"
        try:
            with file.open("rb") as stream:
                dense = StoredMatrix.at(file, stream)
            file = directory / f"day_{number}_labels.npy"
            with file.open("rb") as stream:
                labels = StoredMatrix.at(file, stream)
            file = directory / f"day_{number}_sparse_multi_hot.npz"
            day = cls(dense, labels, _entries(file))
        except OSError as error:
            raise DataError(f"cannot read {file}", str(error.strerror or error), _NEXT_STEP) from error
        except (BadZipFile, KeyError, ValueError) as error:
            raise DataError(f"{file} is not MLPerf's", str(error), _NEXT_STEP) from error
        for array, columns in ((dense, DENSE_FEATURES), (labels, 1), *((bags, bags.columns) for bags in day.sparse)):
            if array.rows != dense.rows or array.columns != columns:
                cause = f"it has an array of {array.rows} x {array.columns} instead of {dense.rows} x {columns}"
                raise DataError(f"{array.file} is not MLPerf's", cause, _NEXT_STEP)
        return day


def _entries(file: Path) -> tuple[StoredMatrix, ...]:
    """Return the arrays 0.npy to 25.npy of an archive. Raises OSError, BadZipFile, KeyError, ValueError."""
    arrays = []
    with ZipFile(file) as archive, file.open("rb") as stream:
        for feature in range(SPARSE_FEATURES):
            entry = archive.getinfo(f"{feature}.npy")
            if entry.compress_type != ZIP_STORED:
                raise ValueError(
                    f"{entry.filename} is compressed, so its rows have no fixed place; np.savez stores them"
                )
            stream.seek(entry.header_offset)
            name_and_extra = sum(_LOCAL_HEADER.unpack(stream.read(_LOCAL_HEADER.size)))
            stream.seek(name_and_extra, SEEK_CUR)
            arrays.append(StoredMatrix.at(file, stream))
    return tuple(arrays)


class MultiHot:
    """A source that repeats the samples of some days in order."""

    def __init__(
        self,
        days: Sequence[Day],
        day_sizes: Sequence[int],  # samples to use of each day
        table_rows: Sequence[int],
        global_batch: int,
        evaluation: "MultiHot | None" = None,
    ) -> None:
        """`evaluation` has the held-out samples; None: these are held out themselves."""
        self.days = days
        self.first_samples = [0, *accumulate(day_sizes)]  # of each day; the last item is the number of all samples
        self.table_rows, self.global_batch = tuple(table_rows), global_batch
        self.num_samples: int | None = self.first_samples[-1]
        self.evaluation = evaluation

    def batch(self, step: int, start: int, size: int) -> Batch:
        """Return samples `start` to `start + size` of the global batch of this step."""
        parts = [
            (self.days[day], first, num_rows)
            for span in spans(step * self.global_batch + start, size, self.first_samples[-1])
            for day, first, num_rows in pieces(span, self.first_samples)
        ] or [(self.days[0], 0, 0)]
        bags = [
            np.concatenate([day.sparse[feature].read(first, num_rows) for day, first, num_rows in parts])
            for feature in range(SPARSE_FEATURES)
        ]
        ids = [(ids.astype(np.int64) % rows).ravel() for ids, rows in zip(bags, self.table_rows, strict=True)]
        dense = np.concatenate([day.dense.read(first, num_rows) for day, first, num_rows in parts])
        labels = np.concatenate([day.labels.read(first, num_rows) for day, first, num_rows in parts])
        lengths = torch.tensor([ids.shape[1] for ids in bags])
        return Batch(
            dense=torch.from_numpy(dense.astype(np.float32)),
            ids=torch.from_numpy(np.concatenate(ids)),
            lengths=lengths[:, None].repeat(1, size),
            labels=torch.from_numpy(labels.astype(np.float32)[:, 0]),
        )

    def held_out(self) -> "MultiHot":
        """Return the source of the first half of the last day."""
        assert self.evaluation is not None, "these samples are held out"
        return self.evaluation


def is_multi_hot(directory: Path) -> bool:
    """Return True if this is a directory of MLPerf's files."""
    return directory.is_dir() and any(_SPARSE.fullmatch(file.name) for file in directory.iterdir())


def open_days(directory: Path) -> list[Day]:
    """Open all days, in their order, at least two with samples. Raises DataError."""
    numbers = sorted(int(match[1]) for file in directory.iterdir() if (match := _SPARSE.fullmatch(file.name)))
    days = [Day.open(directory, number) for number in numbers]
    if len(days) < 2 or not all(day.dense.rows for day in days):
        cause = "it has one day only" if len(days) < 2 else "a day has no sample"
        raise DataError(f"{directory} has too few samples", cause, "Give two days or more: the last one is held out")
    for day in days[1:]:
        for bags, expected in zip(day.sparse, days[0].sparse, strict=True):
            if bags.columns != expected.columns:
                cause = f"a bag has {bags.columns} ids, but {expected.columns} in {expected.file.name}"
                raise DataError(f"{bags.file} does not fit the other days", cause, _NEXT_STEP)
    return days


def open_multi_hot(directory: Path, table_rows: Sequence[int], global_batch: int) -> MultiHot:
    """Open MLPerf's files as a source. Raises DataError if one is missing or damaged."""
    *days, last = open_days(directory)
    evaluation = MultiHot([last], [-(-last.dense.rows // 2)], table_rows, global_batch)
    return MultiHot(days, [day.dense.rows for day in days], table_rows, global_batch, evaluation)


def pooling(directory: Path) -> tuple[float, ...]:
    """Return the ids of a sample in each table. Raises DataError."""
    return tuple(float(array.columns) for array in open_days(directory)[0].sparse)
