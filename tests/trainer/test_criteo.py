"""Criteo rows: good ones, bad ones by file, line and column, and files too small to matter."""

import math
import os

import pytest
import torch

from trainer.criteo import Criteo, CriteoConfig, check_file
from trainer.errors import DataError

ROWS = (100,) * 26


def row(label: str = "1", integers: str = "3", category: str = "000000ff") -> list[str]:
    return [label] + [integers] * 13 + [category] * 26


@pytest.fixture
def read(write_rows):
    """A source over these rows, and the lines it warned with."""

    def run(*rows: list[str], global_batch: int = 2, strict: bool = False) -> tuple[Criteo, list[str]]:
        warnings: list[str] = []
        file = str(write_rows(*rows))
        return Criteo(CriteoConfig(file, strict), ROWS, global_batch, warnings.append), warnings

    return run


def test_good_rows(read) -> None:
    source, warnings = read(row("1", "3", "000000ff"), row("0", "-2", "7"))
    batch = source.batch(0, 0, 2)
    assert batch.labels.tolist() == [1, 0]
    assert batch.dense[0].tolist() == pytest.approx([math.log(4)] * 13)
    assert batch.dense[1].tolist() == [0] * 13  # negative counts as zero
    assert batch.ids.tolist() == [255 % 100, 7] * 26  # by feature, then by sample
    assert batch.lengths.tolist() == [[1, 1]] * 26
    assert warnings == []


def test_missing_values_are_zero_and_empty_bags(read) -> None:
    source, warnings = read(row("1", "", ""), row())
    batch = source.batch(0, 0, 2)
    assert batch.dense[0].tolist() == [0] * 13
    assert batch.lengths.tolist() == [[0, 1]] * 26
    assert batch.ids.tolist() == [55] * 26
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
def test_a_malformed_row_is_named_skipped_and_counted(read, column: int, cell: str, fault: str) -> None:
    bad = row()
    bad[column - 1] = cell
    source, warnings = read(row(), bad, row())
    assert warnings == [
        f"{source.file}:2: {fault}: row skipped",
        f"{source.file}: 1 malformed of 3 rows skipped",
    ]
    assert len(source.labels) == 2


def test_a_short_row_names_the_first_missing_column(read) -> None:
    _, warnings = read(row(), row(), row()[:39])
    assert "rows.tsv:3: column 40: the row has 39 columns instead of 40" in warnings[0]


def test_many_malformed_rows_do_not_flood(read) -> None:
    _, warnings = read(row(), row(), *[["junk"]] * 50)
    assert len(warnings) == 6
    assert warnings[-1].endswith("50 malformed of 52 rows skipped")


def test_strict_stops_at_a_malformed_row(read) -> None:
    with pytest.raises(DataError, match=r"rows\.tsv:2: column 1: 'no' is not a label"):
        read(row(), row("no"), strict=True)


def test_rows_wrap_round_in_order(read) -> None:
    source, warnings = read(*[row(integers=str(number)) for number in range(3)], global_batch=8)
    seen = torch.cat([source.batch(1, start, 4).dense[:, 0] for start in (0, 4)]).expm1().round()
    assert seen.tolist() == [2, 0, 1, 2, 0, 1, 2, 0]  # the second global batch goes on where the first ended
    assert warnings == [f"{source.file}: 3 good rows, the global batch is 8: they repeat"]


def test_windows_line_ends_are_fine(write_rows) -> None:
    file = write_rows(row(), row())
    file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    assert Criteo(CriteoConfig(str(file)), ROWS, 2, warn=pytest.fail).num_skipped == 0


def test_a_file_without_good_rows_is_refused(read) -> None:
    with pytest.raises(DataError, match=r"has no good row: the file is empty"):
        read()
    with pytest.raises(DataError, match=r"has no good row: all 2 rows are malformed"):
        read(["junk"], ["more"])


def test_what_is_no_file_is_refused(tmp_path) -> None:
    with pytest.raises(DataError, match="there is no such file"):
        check_file(str(tmp_path / "nowhere.tsv"))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="not a regular file"):
        check_file(str(tmp_path / "pipe"))
