"""Tests of plain checkpoints: a run continues bit for bit, and a checkpoint that does not fit is refused."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.trainer.build import file_names
from trainer import checkpoint
from trainer.checkpoint import PlainCheckpoints, tensors_of
from trainer.config import Config, EvaluationConfig, TrainConfig
from trainer.errors import CheckpointError
from trainer.loader import Extent
from trainer.loop import Loop
from trainer.sharding import Placement
from trainer.synthetic import Synthetic, SyntheticConfig
from trainer.tables import EmbeddingConfig
from trainer.train import Trainer
from trainer.world import World

ROWS, SAMPLES = (50, 20, 7), 32
PLACEMENTS = (Placement("table_wise", (0,)), Placement("data_parallel", (0,)), Placement("table_wise", (0,)))


@pytest.fixture
def open_loop(single_rank_world: World, tmp_path: Path) -> Callable[..., Loop]:
    """Return a function that opens a run of some steps, with checkpoints of every second step."""

    def opened(steps: int, rows: tuple[int, ...] = ROWS) -> Loop:
        train = TrainConfig(global_batch=SAMPLES)
        config = Config(EmbeddingConfig(rows=rows, dim=4), train, evaluation=EvaluationConfig(every=3, batches=2))
        trainer = Trainer(config, single_rank_world, PLACEMENTS)
        source = Synthetic(SyntheticConfig(), rows, config.model.dense_features, seed=1)
        loop = Loop(trainer, source, Extent.of_steps(steps, SAMPLES))
        tensors = tensors_of(trainer, loop.running)
        loop.checkpoints = PlainCheckpoints(tmp_path / "saved", 2, tensors, single_rank_world)
        return loop

    return opened


def test_run_continues_bit_for_bit(open_loop, tmp_path: Path) -> None:
    whole = open_loop(6)
    whole.checkpoints = None
    whole.train()
    first = open_loop(4)
    assert first.checkpoints.load() == (0, {})
    first.train()
    assert file_names(tmp_path / "saved") == ["step-00000002", "step-00000004"]
    second = open_loop(6)
    second.steps_done, numbers = second.checkpoints.load()
    assert (second.steps_done, numbers["samples"]) == (4, 4 * SAMPLES)
    second.train()
    for name, tensor in tensors_of(whole.trainer, whole.running).items():
        assert torch.equal(tensors_of(second.trainer, second.running)[name], tensor), name


def test_newest_checkpoint_is_loaded_beyond_eight_digits(open_loop) -> None:
    loop = open_loop(2)
    for step in (99_999_999, 100_000_000):
        loop.checkpoints.save(step, {})
    assert open_loop(2).checkpoints.load() == (100_000_000, {})


def test_checkpoint_of_other_tables_is_refused(open_loop) -> None:
    open_loop(2).train()
    other = open_loop(2, (50, 20, 8))
    with pytest.raises(CheckpointError, match=r"^cannot load .*step-00000002: .* Start as many ranks as saved it"):
        other.checkpoints.load()


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_weights_that_are_not_finite_are_not_saved(open_loop, tmp_path: Path, bad: float) -> None:
    loop = open_loop(2)
    loop.train()
    _, weight, _ = list(loop.trainer.tables.weights_and_states())[-1]
    weight.view(-1)[3] = bad
    with pytest.raises(CheckpointError, match=r"^step 4 was not saved in .*: table\.2\.1\.weight of rank 0 has values"):
        loop.checkpoints.save(4, {})
    assert file_names(tmp_path / "saved") == ["step-00000002"]


def test_checkpoint_that_is_not_finite_is_skipped(open_loop, tmp_path: Path, capsys, monkeypatch) -> None:
    """Another program, or an earlier version, saved it."""
    loop = open_loop(6)
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "not_finite", lambda tensors: "")
        loop.checkpoints.save(2, {})
        loop.trainer.flat.parameter.data[0] = math.nan
        loop.checkpoints.save(4, {})
        loop.checkpoints.save(6, {})
    second = open_loop(6)
    second.steps_done, _ = second.checkpoints.load()
    assert second.steps_done == 2
    assert "skipped" in capsys.readouterr().err
    second.train()
    names = ["step-00000002", "step-00000004", "step-00000004.not-finite", "step-00000006", "step-00000006.not-finite"]
    assert file_names(tmp_path / "saved") == names


def test_folder_without_finite_checkpoint_is_refused(open_loop, monkeypatch) -> None:
    """Otherwise the run would silently begin again at step 0."""
    loop = open_loop(2)
    loop.trainer.flat.parameter.data[0] = math.nan
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "not_finite", lambda tensors: "")
        loop.checkpoints.save(2, {})
    with pytest.raises(CheckpointError, match="no checkpoint in it is finite"):
        open_loop(2).checkpoints.load()


@pytest.mark.parametrize("content", [b"", b"no checkpoint"])
def test_damaged_checkpoint_is_refused(open_loop, tmp_path: Path, content: bytes) -> None:
    open_loop(2).train()
    (tmp_path / "saved" / "step-00000002" / "rank-0.pt").write_bytes(content)
    with pytest.raises(CheckpointError, match=r"^cannot load .*step-00000002: \w+"):
        open_loop(2).checkpoints.load()


def test_killed_save_is_not_loaded(open_loop, tmp_path: Path) -> None:
    (tmp_path / "saved" / "step-00000002.partial").mkdir(parents=True)
    assert open_loop(2).checkpoints.load() == (0, {})


def test_save_into_a_file_is_refused(open_loop, tmp_path: Path) -> None:
    (tmp_path / "saved").write_text("no folder")
    with pytest.raises(CheckpointError, match=r"^step 2 was not saved in .*: Not a directory"):
        open_loop(2).train()
