"""Tests of checkpoints of rows on a disk: they stream, equal checkpoints of rows in memory, and load into either."""

import pytest
import torch

from tests.trainer.build import assert_equal, tensors
from trainer.errors import CheckpointError
from trainer.scale.checkpoint import rows
from trainer.scale.run import Run
from trainer.scale.tier.kernel import TieredKernel

SHARDED = {"kind": "table_wise"}  # the planner would give each rank a copy of tables so small


@pytest.fixture
def make_run(small_run, tmp_path):
    """Return a function that opens a run of this many steps, with rows in memory or on a disk."""

    def make(steps: int, place: str, *changes: dict, folder: str = "saved") -> Run:
        checkpoint = {"folder": str(tmp_path / folder), "every": 2}
        embedding = {"rows": [300, 7, 90, 1, 250], "dim": 8, "kernel": "torch"}
        if place == "disk":
            embedding |= {"memory": 6_000, "tier": {"folder": str(tmp_path / "rows")}}
        of_all = {"train": {"steps": steps}, "checkpoint": checkpoint, "embedding": embedding, "sharding": SHARDED}
        run = small_run(of_all, *changes)
        is_on_disk = any(isinstance(kernel, TieredKernel) for _, kernel, _ in run.trainer.tables.locate())
        assert is_on_disk == (place == "disk")
        return run

    return make


@pytest.mark.parametrize("optimizer", ["sgd", "rowwise_adagrad", "adagrad"])
@pytest.mark.parametrize(("saved_by", "loaded_by"), [("disk", "disk"), ("disk", "memory"), ("memory", "disk")])
def test_run_resumes_bit_equal_wherever_its_rows_are(make_run, saved_by: str, loaded_by: str, optimizer: str) -> None:
    rule = {"optimizer": {"embedding": optimizer}}
    uninterrupted = make_run(6, "memory", rule, folder="other")
    uninterrupted.train()
    make_run(3, saved_by, rule).train()
    resumed = make_run(6, loaded_by, rule)
    assert resumed.steps_done == 3
    resumed.train()
    assert_equal(tensors(uninterrupted), tensors(resumed))


@pytest.mark.parametrize("chunk_bytes", [100, 1000])
def test_chunks_of_a_few_rows_are_saved_and_loaded(make_run, monkeypatch, chunk_bytes: int) -> None:
    monkeypatch.setattr(rows, "CHUNK_BYTES", chunk_bytes)
    saved = make_run(2, "disk")
    saved.train()
    assert_equal(tensors(saved), tensors(make_run(2, "disk")))


def test_save_and_load_hold_one_chunk_of_rows_at_a_time(make_run, monkeypatch) -> None:
    """No call reads or writes more rows than a chunk has."""
    monkeypatch.setattr(rows, "CHUNK_BYTES", 1000)
    sizes: list[int] = []  # rows of each call
    records, set_records = TieredKernel.records, TieredKernel.set_records

    def counted_records(kernel: TieredKernel, first: int, num_rows: int):
        sizes.append(num_rows)
        return records(kernel, first, num_rows)

    def counted_set_records(kernel: TieredKernel, first: int, values) -> None:
        sizes.append(len(values))
        set_records(kernel, first, values)

    run = make_run(2, "disk")
    monkeypatch.setattr(TieredKernel, "records", counted_records)
    monkeypatch.setattr(TieredKernel, "set_records", counted_set_records)
    run.train()
    assert run.checkpoints is not None
    run.checkpoints.load(2)
    assert 0 < max(sizes) <= 1000 // 4  # rows of state, of 4 bytes; a chunk of the weight has 31 rows of 8 columns


def test_rows_that_are_not_finite_are_not_saved(make_run) -> None:
    run = make_run(2, "disk")
    kernel = next(kernel for _, kernel, _ in run.trainer.tables.locate())
    kernel.write(3, torch.full((1, 8), float("nan")))
    assert run.checkpoints is not None
    with pytest.raises(CheckpointError, match=r"step 2 was not saved in .*: table\.0\.weight has values that are NaN"):
        run.checkpoints.save(2, {})
