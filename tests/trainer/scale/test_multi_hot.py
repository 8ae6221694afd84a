"""Tests of MLPerf's multi-hot files. The samples are those that NumPy itself reads, and a damaged file is an error."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from trainer.errors import ConfigError, DataError
from trainer.scale.criteo import CriteoConfig
from trainer.scale.multi_hot import MultiHot
from trainer.scale.planning import workload_of
from trainer.scale.presets import MLPERF_BAGS, mlperf_dcnv2
from trainer.scale.shards import open_criteo

ROWS = tuple(range(7, 33))
BAGS = (3, 1, 2, *[1] * 22, 5)


def write_day(directory: Path, number: int, samples: int, bags: tuple[int, ...] = BAGS, save=np.savez) -> None:
    """Write a day as materialize_synthetic_multihot_dataset.py of mlcommons/training does."""
    random = np.random.default_rng(number)
    np.save(directory / f"day_{number}_dense.npy", random.normal(size=(samples, 13)).astype(np.float32))
    np.save(directory / f"day_{number}_labels.npy", random.integers(0, 2, (samples, 1), dtype=np.int32))
    ids = {str(table): random.integers(0, 2**31 - 1, (samples, bag), np.int32) for table, bag in enumerate(bags)}
    save(directory / f"day_{number}_sparse_multi_hot.npz", **ids)


@pytest.fixture
def days(tmp_path) -> Path:
    """Return a folder with days of 5, 4 and 7 samples. By letters, day 10 comes before day 2; it is held out."""
    for number, samples in ((0, 5), (2, 4), (10, 7)):
        write_day(tmp_path, number, samples)
    return tmp_path


def opened(directory: Path, **config) -> MultiHot:
    """Return the source over the days of a directory, with a global batch of four samples."""
    source = open_criteo(CriteoConfig(str(directory), **config), ROWS, global_batch=4, warn=pytest.fail)
    assert isinstance(source, MultiHot)
    return source


def stored(directory: Path, *numbers: int) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """Return dense features, labels and ids by table of these days, read by NumPy."""
    dense, labels = (
        np.concatenate([np.load(directory / f"day_{number}_{part}.npy") for number in numbers])
        for part in ("dense", "labels")
    )
    archives = [np.load(directory / f"day_{number}_sparse_multi_hot.npz") for number in numbers]
    return dense, labels, [np.concatenate([archive[str(table)] for archive in archives]) for table in range(26)]


@pytest.mark.parametrize(("start", "size"), [(0, 4), (1, 3), (3, 1), (4, 0)])
@pytest.mark.parametrize("step", range(5))  # two epochs, and batches that reach from a day into the next
def test_samples_are_those_of_the_files(days, step: int, start: int, size: int) -> None:
    source, (dense, labels, ids) = opened(days), stored(days, 0, 2)
    assert source.num_samples == 9
    batch = source.batch(step, start, size)
    chosen = [(step * 4 + start + sample) % 9 for sample in range(size)]
    assert torch.equal(batch.dense, torch.from_numpy(dense[chosen]))
    assert batch.labels.tolist() == labels[chosen, 0].tolist()
    assert batch.lengths.tolist() == [[bag] * size for bag in BAGS]
    expected = [(values[chosen].astype(np.int64) % rows).ravel() for values, rows in zip(ids, ROWS, strict=True)]
    assert batch.ids.tolist() == np.concatenate(expected).tolist()


def test_first_half_of_the_last_day_is_held_out(days) -> None:
    held_out, (dense, _, _) = opened(days).held_out(), stored(days, 10)
    assert held_out.num_samples == 4  # of 7
    assert torch.equal(held_out.batch(0, 0, 4).dense, torch.from_numpy(dense[:4]))


def test_planner_knows_the_ids_of_a_bag(days) -> None:
    config = mlperf_dcnv2()
    planned = replace(config, criteo=CriteoConfig(str(days)))
    assert [table.pooling for table in workload_of(planned, 2).tables] == list(BAGS)
    assert [table.pooling for table in workload_of(config, 2).tables] == list(MLPERF_BAGS)


def cut(file: Path, end: int = 100) -> None:
    """Cut a file at this offset."""
    file.write_bytes(file.read_bytes()[:end])


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda days: (days / "day_2_dense.npy").unlink(), r"day_2_dense.npy: No such file"),
        (lambda days: cut(days / "day_0_dense.npy"), r"day_0_dense.npy is not MLPerf's: .*Make the files"),
        (lambda days: cut(days / "day_0_dense.npy", -4), r"day_0_dense.npy is not MLPerf's: it is cut: it has 384"),
        (lambda days: cut(days / "day_0_sparse_multi_hot.npz"), r"sparse_multi_hot.npz is not MLPerf's"),
        (lambda days: write_day(days, 0, 5, save=np.savez_compressed), r"0.npy is compressed, so its rows have no"),
        (lambda days: np.save(days / "day_0_labels.npy", np.zeros((4, 1), np.int32)), r"of 4 x 1 instead of 5 x 1"),
        (
            lambda days: np.save(days / "day_0_dense.npy", np.asfortranarray(np.zeros((5, 13), np.float32))),
            r"in the order of columns",
        ),
        (lambda days: write_day(days, 2, 4, (4, *BAGS[1:])), r"a bag has 4 ids, but 3 in day_0"),
        (lambda days: write_day(days, 2, 0), r"a day has no sample"),
    ],
)
def test_wrong_files_are_an_error(days, damage, words: str) -> None:
    damage(days)
    with pytest.raises(DataError, match=words):
        opened(days)


def test_one_day_is_too_few(tmp_path) -> None:
    write_day(tmp_path, 23, 5)
    with pytest.raises(DataError, match=r"one day only.*Give two days or more: the last one is held out"):
        opened(tmp_path)


def test_file_that_became_shorter_during_the_run_is_an_error(days) -> None:
    source = opened(days)
    file = days / "day_0_labels.npy"
    file.write_bytes(file.read_bytes()[:-4])
    assert len(source.batch(0, 0, 4).labels) == 4  # the samples that are left
    with pytest.raises(DataError, match=r"cannot read .*day_0_labels.npy"):
        source.batch(1, 0, 1)


@pytest.mark.parametrize("setting", [{"held_out": 0.1}, {"key_file": "key"}])
def test_settings_of_other_files_are_refused(days, setting: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="left out for MLPerf's multi-hot files"):
        opened(days, **setting)
