"""A run from its first step to its last, of one rank."""

import gc
import math

import pytest
import torch

from trainer.errors import CheckpointError, TrainingError
from trainer.run import Run, open_source
from trainer.train import PooledGradients


@pytest.fixture
def run(small_config, alone, tmp_path):
    def make(*changes):
        config = small_config({"train": {"steps": 4, "progress_every": 2}}, *changes)
        return Run(config, alone, open_source(config, alone))

    return make


def test_a_run_tells_its_plan_and_its_progress(run, capsys) -> None:
    run().train()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "5 tables on 1 ranks"
    assert [line[:6] for line in lines if line.startswith(("step", "finish"))] == ["step 2", "step 4", "finish"]
    assert lines[-1].startswith("finished 4 steps in ")


def test_a_run_evaluates_on_samples_that_it_never_trains_on(run, capsys) -> None:
    trained = run({"evaluation": {"every": 2, "batches": 3}})
    trained.train()
    told = [line for line in capsys.readouterr().out.splitlines() if "evaluation" in line]
    assert [line.split()[1] for line in told] == ["2", "4"]
    assert all("of 96 samples" in line and "AUC" in line for line in told)
    assert not torch.equal(trained.held_out.batch(0, 0, 32).dense, trained.source.batch(0, 0, 32).dense)


def test_a_run_goes_on_from_its_checkpoint_to_the_bit(run, tmp_path) -> None:
    def kept(one):
        return {name: [part.clone() for _, part in rows.parts] for name, rows in one.state().items()}

    whole = run()
    whole.train()
    here = {"checkpoint": {"folder": str(tmp_path / "kept")}}
    run({"train": {"steps": 2}}, here).train()
    resumed = run(here)
    assert resumed.steps_done == 2
    resumed.train()
    one, other = kept(whole), kept(resumed)
    assert all(torch.equal(a, b) for name in one for a, b in zip(one[name], other[name], strict=True))


def test_loss_that_is_no_number_ends_the_run_with_one_line(run) -> None:
    trained = run()
    trained.trainer.flat.parameter.data.fill_(math.nan)
    with pytest.raises(TrainingError, match="the loss of step 1 is nan: a sample has a value that is NaN or infinite"):
        trained.train()


def test_loss_that_is_no_number_may_go_on(run, capsys) -> None:
    trained = run({"train": {"stop_at_nan": False}})
    trained.trainer.flat.parameter.data.fill_(math.nan)
    trained.train()
    assert capsys.readouterr().out.splitlines()[-1].startswith("finished 4 steps")


def test_a_resume_with_another_batch_says_what_that_means(run, tmp_path, capsys) -> None:
    here = {"checkpoint": {"folder": str(tmp_path / "kept")}}
    run({"train": {"steps": 2}}, here).train()
    assert "train.global_batch" not in capsys.readouterr().err
    run(here, {"train": {"global_batch": 16}})
    assert "train.global_batch is 16, but was 32 when step 2 was saved" in capsys.readouterr().err


def test_steps_leave_nothing_behind(run) -> None:
    """A tensor whose hook holds what holds the tensor is never collected."""
    trained = run({"train": {"steps": 40}})
    trained.train()
    gc.collect()
    kept = sum(type(thing) is PooledGradients for thing in gc.get_objects())
    assert kept <= 1


def test_a_save_that_failed_beside_the_steps_ends_the_run_within_two(run, tmp_path) -> None:
    trained = run({"checkpoint": {"folder": str(tmp_path / "kept"), "every": 1000}})
    trained.checkpoints._error = CheckpointError("step 1000 was not saved", "No space left on device", "Make room")
    with pytest.raises(CheckpointError, match="No space left on device"):
        trained.train()
    assert trained.steps_done == 1  # the second step reported it


def test_a_run_that_goes_on_says_so(run, tmp_path, capsys) -> None:
    here = {"checkpoint": {"folder": str(tmp_path / "kept")}}
    run({"train": {"steps": 2}}, here).train()
    assert "goes on" not in capsys.readouterr().out
    run(here)
    assert f"resumed from step 2 in {tmp_path / 'kept'}" in capsys.readouterr().out
