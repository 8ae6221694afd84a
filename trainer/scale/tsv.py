"""Rows of Criteo from Kaggle's TSVs, plain or .gz: label, 13 integers, 26 hex categories. An empty cell is missing.

A dense feature is log(1 + max(x, 0)), and 0 if it is missing. Categories are stored unchanged.
"""

import gzip
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainer.errors import DataError
from trainer.scale.criteo import BITS, DENSE_FEATURES, ROW, SPARSE_FEATURES, Criteo, CriteoConfig, is_held_out

COLUMNS = 1 + DENSE_FEATURES + SPARSE_FEATURES

BLOCK_BYTES = 2**18  # text parsed at a time; the results fit into the caches of the CPU
GZIP_MAGIC = b"\x1f\x8b"
MAX_WARNINGS = 5  # each of the first malformed rows gets a warning; the others are only counted

INTEGER_DIGITS, CATEGORY_DIGITS = 18, 8  # the maximum number of digits
PADDING = b"\0" * INTEGER_DIGITS + b"\n"  # precedes the first cell, so that windows to its left exist
HEX_DIGITS = np.full(256, 255, np.uint8)  # the value of each character; 255: not a digit
HEX_DIGITS[np.frombuffer(b"0123456789abcdef", np.uint8)] = range(16)
HEX_DIGITS[np.frombuffer(b"ABCDEF", np.uint8)] = range(10, 16)

COLUMN_KINDS = (  # for each column: its content and pattern
    ("a label, 0 or 1", rb"[01]"),
    *[("an integer of up to 18 digits", rb"(?:-?\d{1,18})?")] * DENSE_FEATURES,
    *[("a category of up to 8 hexadecimal digits", rb"[0-9a-fA-F]{0,8}")] * SPARSE_FEATURES,
)


def read_tsv(config: CriteoConfig, table_rows: Sequence[int], global_batch: int, warn: Callable[[str], None]) -> Criteo:
    """Read a whole TSV into the memory of every rank: 164 bytes per row, so it suits files of a few million rows.

    Raises DataError if the file is unreadable or has no valid row, or if `strict` and a row is malformed.
    """
    check_file(config.file)
    reader = TsvReader(config.strict, warn)
    rows = np.concatenate([np.empty(0, ROW), *(rows for rows, _ in reader.read(config.file))])
    skipped = reader.finish(config.file)
    if skipped:
        warn(skipped)
    held_out = is_held_out(0, len(rows), config.held_out)
    return Criteo(config.file, rows[~held_out], rows[held_out], table_rows, global_batch, skipped)


def check_file(file: str) -> None:
    """Raise DataError unless this is a regular file; a pipe would give each rank only a part of the data."""
    path = Path(file)
    if not path.is_file():
        cause = "it is not a regular file" if path.exists() else "the file does not exist"
        raise DataError(f"cannot read {file}", cause, "Give the path of a Criteo-Kaggle TSV")


class TsvReader:
    """A reader of the valid rows of TSVs; it warns of each of the first malformed rows."""

    def __init__(self, strict: bool, warn: Callable[[str], None]) -> None:
        self.strict, self.warn = strict, warn
        self.num_valid = self.num_skipped = 0

    def read(self, file: str) -> Iterator[tuple[NDArray[np.void], int]]:
        """Yield rows of dtype ROW, about a thousand at a time, with the bytes of the file read so far.

        Raises DataError if the file is unreadable or damaged, or if `strict` and a row is malformed.
        """
        line = 1
        for text, position in _blocks(file):
            parsed = parse(text)
            for row in parsed.malformed:
                self._skip(f"{file}:{line + row.line}", text[row.start : row.stop])
            line += parsed.num_lines
            self.num_valid += len(parsed.rows)
            yield parsed.rows, position

    def finish(self, name: str) -> str:
        """Return a line with the number of skipped rows, empty if none. Raises DataError if no valid row is left."""
        if not self.num_valid:
            cause = f"all {self.num_skipped} rows are malformed" if self.num_skipped else "it is empty"
            raise DataError(f"{name} has no valid row", cause, "Give label, 13 integers and 26 hex categories")
        if not self.num_skipped:
            return ""
        return f"{name}: {self.num_skipped} malformed of {self.num_skipped + self.num_valid} rows skipped"

    def _skip(self, location: str, row: bytes) -> None:
        fault = f"{location}: {_fault(row)}"
        if self.strict:
            raise DataError(fault, "a malformed row ends a strict run", "Fix the row, or leave out --strict")
        self.num_skipped += 1
        if self.num_skipped <= MAX_WARNINGS:
            self.warn(f"{fault}: row skipped")


class MalformedRow(NamedTuple):
    """The place of a malformed row in a text."""

    line: int  # from 0
    start: int
    stop: int


class Parsed(NamedTuple):
    """The rows of a text."""

    rows: NDArray[np.void]  # the valid rows, of dtype ROW
    malformed: list[MalformedRow]
    num_lines: int  # of both kinds


def parse(text: bytes) -> Parsed:
    """Parse whole lines. A cell is valid if it matches the pattern in COLUMN_KINDS.

    Shapes: L lines with the right number of columns.
    """
    characters = np.frombuffer(PADDING + text, np.uint8)
    # the ends of cells; the first one is the end of the padding
    ends = np.flatnonzero((characters == ord("\t")) | (characters == ord("\n")))
    line_ends = np.flatnonzero(characters[ends] == ord("\n"))
    valid = np.diff(line_ends) == COLUMNS
    edges = ends[line_ends[:-1][valid][:, None] + np.arange(COLUMNS + 1)]
    starts, stops = edges[:, :-1] + 1, edges[:, 1:]  # (L, 40)
    stops[:, -1] -= characters[stops[:, -1] - 1] == ord("\r")

    labels = characters[starts[:, 0]] - ord("0")
    dense, dense_valid = _integers(characters, starts[:, 1 : 1 + DENSE_FEATURES], stops[:, 1 : 1 + DENSE_FEATURES])
    categories, categories_valid = _categories(characters, starts[:, -SPARSE_FEATURES:], stops[:, -SPARSE_FEATURES:])
    is_valid = (
        (stops[:, 0] - starts[:, 0] == 1) & (labels <= 1) & dense_valid.all(axis=1) & categories_valid.all(axis=1)
    )
    valid[valid] = is_valid  # a line with the right number of columns is valid if all its cells are

    rows = np.empty(np.count_nonzero(is_valid), ROW)
    rows["label"] = labels[is_valid]
    rows["dense"] = np.log1p(dense[is_valid])
    rows["categories"] = categories[is_valid]
    present = (stops > starts)[is_valid, -SPARSE_FEATURES:].astype(np.uint32)
    rows["present"] = (present << BITS).sum(axis=1)

    line_edges = (ends[line_ends] + 1 - len(PADDING)).tolist()  # in the text
    malformed = [
        MalformedRow(line, start=line_edges[line], stop=line_edges[line + 1])
        for line in np.flatnonzero(~valid).tolist()
    ]
    return Parsed(rows, malformed, len(valid))


def _integers(
    characters: NDArray[np.uint8], starts: NDArray[np.intp], stops: NDArray[np.intp]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the value of each cell, 0 if negative or missing, and a mask of the cells that are valid or empty."""
    lengths = stops - starts
    negative = (characters[starts] == ord("-")) & (lengths > 1)
    lengths -= negative
    digits = _align_right(characters, stops, lengths, min(INTEGER_DIGITS, lengths.max(initial=1))) - ord("0")
    values = np.zeros(starts.shape, np.int64)
    valid = lengths <= INTEGER_DIGITS
    for digit in np.moveaxis(digits, -1, 0):
        values = values * 10 + digit
        valid &= digit <= 9
    return np.where(negative, 0, values), valid


def _categories(
    characters: NDArray[np.uint8], starts: NDArray[np.intp], stops: NDArray[np.intp]
) -> tuple[NDArray[np.uint32], NDArray[np.bool_]]:
    """Return the value of each cell, 0 if missing, and a mask of the cells that are valid or empty."""
    lengths = stops - starts
    digits = HEX_DIGITS.take(_align_right(characters, stops, lengths, CATEGORY_DIGITS))
    high, low = digits[..., 0::2], digits[..., 1::2]
    values = (high << 4 | low).view(">u4")[..., 0]  # four bytes, the highest first
    not_digits = (high | low).view(np.uint32)[..., 0] & 0xF0F0F0F0  # nonzero if a character is not a digit
    return values, (not_digits == 0) & (lengths <= CATEGORY_DIGITS)


def _align_right(
    characters: NDArray[np.uint8], stops: NDArray[np.intp], lengths: NDArray[np.intp], width: int
) -> NDArray[np.uint8]:
    """Return the last `width` characters of each cell, with zeros in front of shorter ones: (…, width)."""
    windows = np.lib.stride_tricks.sliding_window_view(characters, width)
    return np.where(np.arange(width) >= width - lengths[..., None], windows[stops - width], np.uint8(ord("0")))


def _blocks(file: str) -> Iterator[tuple[bytes, int]]:
    """Yield whole lines of a file, about a thousand at a time, with the bytes of the file read so far."""
    partial_line = b""
    try:
        with Path(file).open("rb") as raw:
            is_gzip = raw.peek(len(GZIP_MAGIC)).startswith(GZIP_MAGIC)
            stream = gzip.GzipFile(fileobj=raw) if is_gzip else raw
            while block := stream.read(BLOCK_BYTES):
                lines, newline, partial_line = (partial_line + block).rpartition(b"\n")
                if len(partial_line) > BLOCK_BYTES:
                    cause = f"it has a line of more than {BLOCK_BYTES:,} bytes"
                    raise DataError(f"{file} is not a TSV", cause, "Give the path of a Criteo-Kaggle TSV")
                yield lines + newline, raw.tell()
            yield partial_line + b"\n" if partial_line else b"", raw.tell()
    except (OSError, EOFError, zlib.error) as error:
        cause = getattr(error, "strerror", None) or str(error)
        raise DataError(f"cannot read {file}", cause, "Check that it is complete and readable") from error


def _fault(row: bytes) -> str:
    """Return the first malformed column of a row, counted from 1, and the reason."""
    cells = row.removesuffix(b"\n").removesuffix(b"\r").split(b"\t")
    if len(cells) != COLUMNS:
        column = min(len(cells), COLUMNS) + 1  # the first missing or the first superfluous column
        return f"column {column}: the row has {len(cells)} columns instead of {COLUMNS}"
    column, cell, kind = next(
        (column, cell, kind)
        for column, (cell, (kind, pattern)) in enumerate(zip(cells, COLUMN_KINDS, strict=True), start=1)
        if not re.fullmatch(pattern, cell)
    )
    return f"column {column}: {cell[:20].decode(errors='replace')!r} is not {kind}"
