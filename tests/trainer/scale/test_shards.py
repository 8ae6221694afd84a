"""Tests of prepared rows. They give the same samples as the TSV, and an incomplete directory is an error."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from trainer.batch import Batch
from trainer.errors import ConfigError, DataError
from trainer.scale.criteo import Criteo, CriteoConfig
from trainer.scale.prepare import prepare
from trainer.scale.shards import MANIFEST, open_criteo

ROWS = tuple(range(7, 33))


def cells(number: int) -> list[str]:
    """Return a unique row with some values missing."""
    integers = [str(number * 10 + column) if (number + column) % 5 else "" for column in range(13)]
    categories = [f"{number * 77_777_777 + column:08x}"[-8:] if (number + column) % 4 else "" for column in range(26)]
    return [str(number % 2), *integers, *categories]


def open_rows(path: Path, global_batch: int = 8, **config) -> Criteo:
    """Return the source over the rows of a TSV or of a prepared directory."""
    return open_criteo(CriteoConfig(str(path), **config), ROWS, global_batch, warn=pytest.fail)


@pytest.fixture
def tsv(write_rows) -> Path:
    """Return a TSV of 33 rows."""
    return write_rows(*map(cells, range(33)))


@pytest.fixture
def prepared(tsv, tmp_path) -> Path:
    """Return a prepared directory with 30 rows to train on, in three shards, and 3 held-out rows in one."""
    prepare([str(tsv)], tmp_path / "out", rows_per_shard=12, held_out=0.1, warn=pytest.fail)
    return tmp_path / "out"


def equal(first: Batch, second: Batch) -> bool:
    """Return True if two batches have equal tensors of the same types."""
    pairs = [(getattr(first, part), getattr(second, part)) for part in ("dense", "ids", "lengths", "labels")]
    return all(a.dtype == b.dtype and torch.equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("rows_per_shard", [1, 7, 12, 1000])
def test_prepared_rows_equal_rows_of_tsv(tsv, tmp_path, rows_per_shard: int) -> None:
    prepare([str(tsv)], tmp_path / "out", rows_per_shard=rows_per_shard, held_out=0.1, warn=pytest.fail)
    shards, memory = open_rows(tmp_path / "out"), open_rows(tsv, held_out=0.1)
    assert shards.num_samples == memory.num_samples == 30
    assert shards.held_out().num_samples == memory.held_out().num_samples == 3
    for step in range(9):  # more than two epochs
        for start, size in ((0, 8), (3, 5), (4, 1), (8, 0)):
            assert equal(shards.batch(step, start, size), memory.batch(step, start, size))
            assert equal(shards.held_out().batch(step, start, size), memory.held_out().batch(step, start, size))


def test_prepared_rows_fit_tables_of_any_size(prepared, tsv) -> None:
    for rows in ((1,) * 26, (2**31,) * 26):
        sources = [open_criteo(CriteoConfig(str(path)), rows, 4, pytest.fail) for path in (prepared, tsv)]
        assert equal(*(source.batch(0, 0, 4) for source in sources))
    assert sources[0].batch(0, 1, 1).ids[0] == 77_777_777  # a category of the file is below 2^31 rows, so it is the id


def test_manifest_has_numbers_of_rows_and_statistics_of_columns(prepared) -> None:
    manifest = json.loads((prepared / MANIFEST).read_text())
    assert manifest["version"] == 1
    assert manifest["rows"] == 33
    assert manifest["train"] == [12, 12, 6]
    assert manifest["held_out"] == [3]
    assert manifest["columns"]["label"]["maximum"] == 1
    assert manifest["columns"]["I13"]["maximum"] == pytest.approx(torch.tensor(332.0).log1p().item())
    assert manifest["columns"]["C1"] == {
        "maximum": max(int(cells(number)[14] or "0", 16) for number in range(33)),
        "present": sum(bool(cells(number)[14]) for number in range(33)),
    }


def manifest_with(**changes: object) -> Callable[[bytes], bytes]:
    """Return a function that changes values of the manifest."""
    return lambda content: json.dumps(json.loads(content) | changes).encode()


@pytest.mark.parametrize(
    ("file", "change", "fault"),  # change None: the file is missing
    [
        (MANIFEST, None, "is not a prepared directory: it has no manifest.json"),
        (MANIFEST, lambda _: b"{", "cannot read .*manifest.json: Expecting"),
        (MANIFEST, lambda _: b"{\x80", "cannot read .*manifest.json: 'utf-8' codec"),
        (MANIFEST, lambda _: b"[1]", "is not a prepared directory: its manifest.json has another format"),
        (MANIFEST, manifest_with(version=2), "it has version 2, but this trainer reads version 1"),
        (MANIFEST, lambda content: content.replace(b'"train"', b'"tests"'), "is damaged: it has no valid 'train'"),
        (MANIFEST, manifest_with(train=3), "manifest.json is damaged: "),
        (MANIFEST, manifest_with(train=[]), "damaged: it has no row to train on"),
        ("train-00001.bin", None, "cannot read .*train-00001.bin: No such file"),
        # A row has 164 bytes.
        ("train-00002.bin", lambda _: bytes(900), "train-00002.bin is damaged: it has 900 bytes instead of 984"),
        ("held_out-00000.bin", lambda _: bytes(10_000), "is damaged: it has 10,000 bytes instead of 492"),
    ],
)
def test_incomplete_or_damaged_directory_is_refused_in_one_line(prepared, file: str, change, fault: str) -> None:
    content = (prepared / file).read_bytes()
    (prepared / file).unlink()
    if change:
        (prepared / file).write_bytes(change(content))
    with pytest.raises(DataError, match=fault) as caught:
        open_rows(prepared)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("damage", [lambda file: file.unlink(), lambda file: file.write_bytes(b"\0" * 164)])
def test_shard_that_shrinks_during_run_is_an_error(prepared, damage) -> None:
    source = open_rows(prepared)
    assert len(source.batch(0, 0, 8).labels) == 8
    damage(prepared / "train-00000.bin")
    with pytest.raises(DataError, match=r"cannot read .*train-00000.bin: .* was complete when the run started"):
        source.batch(0, 0, 8)


def test_options_of_prepare_cannot_be_changed_later(prepared, tmp_path, write_rows) -> None:
    with pytest.raises(ConfigError, match=r"criteo.held_out is 0\.2: it must be 0 for a prepared directory"):
        open_rows(prepared, held_out=0.2)
    prepare([str(write_rows(cells(1), ["junk"]))], tmp_path / "other", warn=lambda line: None)
    with pytest.raises(DataError, match=r"was prepared without malformed rows: .*: 1 malformed of 2 rows skipped"):
        open_rows(tmp_path / "other", strict=True)
    assert open_rows(tmp_path / "other", global_batch=1).skipped.endswith("1 malformed of 2 rows skipped")
