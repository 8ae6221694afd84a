"""Tests of runs of a single rank: progress, evaluation, resumed checkpoints, and a failed save."""

import gc

import pytest
import torch

from tests.trainer.build import assert_equal, criteo_row, tensors
from trainer.errors import CheckpointError
from trainer.train import PooledGradients


@pytest.fixture
def make_run(small_run):
    """Return a function that opens a run of four steps with these changes."""
    return lambda *changes: small_run({"train": {"steps": 4, "progress_every": 2}}, *changes)


@pytest.fixture
def checkpoint(make_run, tmp_path, capsys):
    """Return the keys of a folder with a checkpoint of step 2; what its run printed is in no other output."""
    keys = {"checkpoint": {"folder": str(tmp_path / "saved_steps")}}
    make_run({"train": {"steps": 2}}, keys).train()
    printed = capsys.readouterr()
    assert "resumed" not in printed.out
    assert "train.global_batch" not in printed.err
    return keys


def test_run_prints_plan_and_progress(make_run, capsys) -> None:
    make_run().train()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "5 tables on 1 ranks"
    assert [line[:6] for line in lines if line.startswith("step")] == ["step 2", "step 4"]
    assert lines[-1].startswith("finished 4 steps in ")


def test_run_evaluates_on_held_out_samples(make_run, capsys) -> None:
    trained = make_run({"evaluation": {"every": 2, "batches": 3}})
    trained.train()
    lines = [line for line in capsys.readouterr().out.splitlines() if "evaluation" in line]
    assert [line.split()[1] for line in lines] == ["2", "4"]
    assert all("of 96 samples" in line and "AUC" in line for line in lines)
    assert not torch.equal(trained.held_out.batch(0, 0, 32).dense, trained.source.batch(0, 0, 32).dense)


HALF = {"embedding": {"dtype": "bfloat16"}, "sharding": {"kind": "table_wise"}}
ON_DISK = {"embedding": {"memory": 1500, "tier": {"folder": "rows"}}}


@pytest.mark.parametrize("changes", [[], [HALF], [HALF, ON_DISK]], ids=["float32", "bfloat16", "bfloat16 on a disk"])
def test_resumed_run_is_bit_identical(make_run, changes, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    saved = {"checkpoint": {"folder": "saved_steps"}}
    make_run({"train": {"steps": 2}}, saved, *changes).train()
    uninterrupted = make_run(*changes)
    uninterrupted.train()
    resumed = make_run(saved, *changes)
    assert resumed.steps_done == 2
    resumed.train()
    assert_equal(tensors(uninterrupted), tensors(resumed))


@pytest.mark.parametrize("place", [[], [ON_DISK]], ids=["in memory", "on a disk"])
def test_checkpoint_of_one_type_of_weights_loads_into_the_other(make_run, place, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)

    def weights_after(folder: str, *changes) -> dict[str, torch.Tensor]:
        run = make_run({"checkpoint": {"folder": folder}}, {"sharding": {"kind": "table_wise"}}, *place, *changes)
        run.train()
        return {name: parts[0] for name, parts in tensors(run).items() if name.endswith(".weight")}

    full = weights_after("full")
    half = weights_after("full", HALF)  # which has no step left
    assert half["table.0.weight"].dtype == torch.bfloat16
    assert all(torch.equal(half[name], full[name].to(torch.bfloat16)) for name in full)
    half = weights_after("half", HALF)
    full = weights_after("half")
    assert all(torch.equal(full[name], half[name].float()) for name in full)


def test_resume_with_another_batch_size_warns(make_run, checkpoint, capsys) -> None:
    make_run(checkpoint, {"train": {"global_batch": 16}})
    assert "train.global_batch is 16, but was 32 when step 2 was saved" in capsys.readouterr().err


def test_resume_with_another_seed_warns_with_all_its_digits(make_run, checkpoint, tmp_path, capsys) -> None:
    (tmp_path / "saved_steps/step-00000002/numbers.json").write_text('{"seed": 20241129}')
    make_run(checkpoint)
    assert "train.seed is 1, but was 20241129 when step 2 was saved" in capsys.readouterr().err


def test_checkpoint_with_other_numbers_is_resumed(make_run, checkpoint, tmp_path, capsys) -> None:
    (tmp_path / "saved_steps/step-00000002/numbers.json").write_text('{"global_batch": 32, "later": 1}')
    assert make_run(checkpoint).steps_done == 2
    printed = capsys.readouterr()
    assert f"resumed from step 2 in {tmp_path / 'saved_steps'}" in printed.out
    assert not printed.err


def test_resume_after_small_last_batch_warns_of_skipped_samples(make_run, tmp_path, write_rows, capsys) -> None:
    file = write_rows(*[criteo_row()] * 10)
    tables = {"embedding": {"rows": [5] * 26}, "model": {"dense_features": 13}, "criteo": {"file": str(file)}}
    saved_steps = {"checkpoint": {"folder": str(tmp_path / "saved_steps")}}

    def resumed(epochs: int) -> str:
        make_run(tables, saved_steps, {"train": {"steps": 0, "epochs": epochs, "global_batch": 4}}).train()
        return capsys.readouterr().err

    assert "skipped" not in resumed(1)
    assert "skipped" not in resumed(1)  # no step follows
    assert "2 samples are skipped: step 3 was the last step of the run that saved it" in resumed(2)
    assert "skipped" not in resumed(3)  # the second run ended with a full batch


def test_training_leaves_no_reference_cycles(make_run) -> None:
    """Check that hooks are removed: a tensor and its hook that refer to each other are never collected."""
    trained = make_run({"train": {"steps": 40}})
    trained.train()
    gc.collect()
    num_left = sum(type(thing) is PooledGradients for thing in gc.get_objects())
    assert num_left <= 1


def test_failed_background_save_ends_run_within_two_steps(make_run, tmp_path) -> None:
    trained = make_run({"checkpoint": {"folder": str(tmp_path / "saved_steps"), "every": 1000}})
    trained.checkpoints._error = CheckpointError("step 1000 was not saved", "No space left on device", "Make room")
    with pytest.raises(CheckpointError, match="No space left on device"):
        trained.train()
    assert trained.steps_done == 1  # the second step reported it
