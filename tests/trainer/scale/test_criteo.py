"""Tests of Criteo rows: valid rows, malformed rows with file, line and column, held-out rows, and unusable files."""

import math
import os
import random
import re

import numpy as np
import pytest
import torch

from tests.trainer.build import criteo_row
from trainer.errors import ConfigError, DataError
from trainer.scale import tsv
from trainer.scale.criteo import Criteo, CriteoConfig, is_held_out
from trainer.scale.shards import open_criteo
from trainer.scale.tsv import COLUMN_KINDS, check_file, parse

ROWS = (100,) * 26


@pytest.fixture
def read_rows(write_rows):
    """Return a function that opens a source over these rows, and returns it with its warnings."""

    def run(*rows: list[str], global_batch: int = 2, **config) -> tuple[Criteo, list[str]]:
        warnings: list[str] = []
        file = str(write_rows(*rows))
        return open_criteo(CriteoConfig(file, **config), ROWS, global_batch, warnings.append), warnings

    return run


def test_valid_rows_become_labels_numbers_and_ids(read_rows) -> None:
    source, warnings = read_rows(criteo_row("1", "3", "000000ff"), criteo_row("0", "-2", "7"))
    batch = source.batch(0, 0, 2)
    assert batch.labels.tolist() == [1, 0]
    assert batch.dense[0].tolist() == pytest.approx([math.log(4)] * 13)
    assert batch.dense[1].tolist() == [0] * 13  # negative counts as zero
    assert batch.ids.tolist() == [0xFF % 100, 7] * 26  # by feature, then by sample
    assert batch.lengths.tolist() == [[1, 1]] * 26
    assert warnings == []


def test_missing_values_become_zeros_and_empty_bags(read_rows) -> None:
    source, warnings = read_rows(criteo_row("1", "", ""), criteo_row())
    batch = source.batch(0, 0, 2)
    assert batch.dense[0].tolist() == [0] * 13
    assert batch.lengths.tolist() == [[0, 1]] * 26
    assert batch.ids.tolist() == [0xFF % 100] * 26
    assert warnings == []


@pytest.mark.parametrize(
    ("column", "cell", "fault"),
    [
        (1, "2", "column 1: '2' is not a label, 0 or 1"),
        (1, "", "column 1: '' is not a label, 0 or 1"),
        (2, "1.5", "column 2: '1.5' is not an integer of up to 18 digits"),
        (14, "1_0", "column 14: '1_0' is not an integer of up to 18 digits"),
        (15, "xyz", "column 15: 'xyz' is not a category of up to 8 hexadecimal digits"),
        (40, "123456789", "column 40: '123456789' is not a category of up to 8 hexadecimal digits"),
        (40, "1\t2", "column 41: the row has 41 columns instead of 40"),
    ],
)
def test_malformed_row_is_reported_skipped_and_counted(read_rows, column: int, cell: str, fault: str) -> None:
    bad = criteo_row()
    bad[column - 1] = cell
    source, warnings = read_rows(criteo_row(), bad, criteo_row())
    assert warnings == [f"{source.name}:2: {fault}: row skipped", f"{source.name}: 1 malformed of 3 rows skipped"]
    assert source.skipped == warnings[-1]
    assert source.num_samples == 2


def test_short_row_is_reported_with_first_missing_column(read_rows) -> None:
    _, warnings = read_rows(criteo_row(), criteo_row(), criteo_row()[:39])
    assert "rows.tsv:3: column 40: the row has 39 columns instead of 40" in warnings[0]


def test_warnings_about_malformed_rows_are_limited(read_rows) -> None:
    _, warnings = read_rows(criteo_row(), criteo_row(), *[["junk"]] * 50)
    assert len(warnings) == 6
    assert warnings[-1].endswith("50 malformed of 52 rows skipped")


def test_strict_refuses_malformed_row(read_rows) -> None:
    with pytest.raises(DataError, match=r"rows\.tsv:2: column 1: 'no' is not a label"):
        read_rows(criteo_row(), criteo_row("no"), strict=True)


def test_rows_repeat_in_order_if_batch_is_larger_than_file(read_rows) -> None:
    source, warnings = read_rows(*[criteo_row(integers=str(number)) for number in range(3)], global_batch=8)
    integers = torch.cat([source.batch(1, start, 4).dense[:, 0] for start in (0, 4)]).expm1().round()
    assert integers.tolist() == [2, 0, 1, 2, 0, 1, 2, 0]  # the second global batch continues where the first ended
    assert warnings == [f"{source.name} has 3 valid rows, fewer than the global batch of 8: rows repeat"]


def test_file_without_valid_rows_is_refused(read_rows) -> None:
    with pytest.raises(DataError, match=r"has no valid row: it is empty"):
        read_rows()
    with pytest.raises(DataError, match=r"has no valid row: all 2 rows are malformed"):
        read_rows(["junk"], ["more"])


def test_missing_file_and_pipe_are_refused(tmp_path) -> None:
    with pytest.raises(DataError, match="the file does not exist"):
        check_file(str(tmp_path / "nowhere.tsv"))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="not a regular file"):
        check_file(str(tmp_path / "pipe"))


def test_parser_accepts_exactly_rows_that_match_patterns() -> None:
    """Compare many kinds of cells in all columns with regular expressions and Python's own int."""
    odd = ["", "-", "--1", "-0", "0", "007", "-12", "1 ", "+1", "9" * 18, "9" * 19, "-" + "9" * 18, "-" + "9" * 19]
    odd += ["a", "F" * 8, "f" * 9, "0x1", "g", ":", "/", "@", "`", "\r", "é", "\0", "2"]
    pick = random.Random(1)
    rows = []
    for _ in range(1000):
        cells = [pick.choice("01"), *(str(pick.randrange(-9, 10**6)) for _ in range(13))]
        cells += [f"{pick.randrange(2**32):x}" for _ in range(26)]
        for _ in range(pick.choice([0, 1, 1, 1, 2])):
            cells[pick.randrange(40)] = pick.choice(odd)
        rows.append(cells)
    text = "".join("\t".join(cells) + "\n" for cells in rows).encode()
    parsed, malformed, num_lines = parse(text)

    def is_valid(cells: list[str]) -> bool:
        cells = [*cells[:-1], cells[-1].removesuffix("\r")]
        return all(re.fullmatch(kind[1], cell.encode()) for kind, cell in zip(COLUMN_KINDS, cells, strict=True))

    valid = [cells for cells in rows if is_valid(cells)]
    assert num_lines == 1000
    assert 300 < len(valid) < 800
    assert [row.line for row in malformed] == [line for line, cells in enumerate(rows) if not is_valid(cells)]
    lines = text.split(b"\n")
    assert [text[row.start : row.stop] for row in malformed] == [lines[row.line] + b"\n" for row in malformed]
    for record, cells in zip(parsed, valid, strict=True):
        assert record["label"] == int(cells[0])
        integers = [float(max(int(cell or 0), 0)) for cell in cells[1:14]]
        assert record["dense"].tolist() == np.log1p(integers).astype("f4").tolist()
        assert record["categories"].tolist() == [int(cell.strip() or "0", 16) for cell in cells[14:]]
        assert record["present"] == sum(1 << bit for bit, cell in enumerate(cells[14:]) if cell.strip())


def test_rows_across_blocks_are_read(write_rows, monkeypatch) -> None:
    monkeypatch.setattr(tsv, "BLOCK_BYTES", 300)  # a row has 287 bytes
    file = write_rows(*[criteo_row(integers=str(number)) for number in range(10)])
    file.write_bytes(file.read_bytes().removesuffix(b"\n"))
    source = open_criteo(CriteoConfig(str(file)), ROWS, 10, warn=pytest.fail)
    assert source.batch(0, 0, 10).dense[:, 0].expm1().round().tolist() == list(range(10))


def test_file_without_newlines_is_refused(tmp_path) -> None:
    file = tmp_path / "zeros"
    file.write_bytes(b"\0" * 10**6)
    with pytest.raises(DataError, match="is not a TSV: it has a line of more than"):
        open_criteo(CriteoConfig(str(file)), ROWS, 10, warn=pytest.fail)


def test_held_out_rows_are_spread_and_not_trained_on(read_rows) -> None:
    source, warnings = read_rows(
        *[criteo_row(integers=str(number)) for number in range(10)], global_batch=3, held_out=0.3
    )
    trained = source.batch(0, 0, 7).dense[:, 0].expm1().round().tolist()
    evaluated = source.held_out().batch(0, 0, 3).dense[:, 0].expm1().round().tolist()
    assert evaluated == [3, 6, 9]
    assert trained == [0, 1, 2, 4, 5, 7, 8]
    assert source.held_out().num_samples == 3
    assert warnings == []


def test_held_out_rows_do_not_depend_on_blocks() -> None:
    whole = is_held_out(0, 10_000, 0.1)
    assert whole.sum() == 1000
    assert [*is_held_out(0, 1234, 0.1), *is_held_out(1234, 8766, 0.1)] == whole.tolist()
    assert not is_held_out(0, 100, 0).any()


def test_missing_held_out_rows_and_invalid_share_are_refused(read_rows) -> None:
    source, _ = read_rows(criteo_row(), criteo_row())
    with pytest.raises(DataError, match=r"rows.tsv has no rows for evaluation: none of its rows were held out"):
        source.held_out()
    with pytest.raises(ConfigError, match=r"criteo.held_out is 0\.6: it must be from 0 to 0\.5"):
        CriteoConfig(held_out=0.6)


def test_batch_without_samples_is_empty(read_rows) -> None:
    source, _ = read_rows(criteo_row(), criteo_row())
    batch = source.batch(0, 1, 0)
    assert batch.dense.shape == (0, 13)
    assert batch.lengths.shape == (26, 0)
    assert batch.ids.dtype == torch.int64
    assert len(batch.ids) == len(batch.labels) == 0
