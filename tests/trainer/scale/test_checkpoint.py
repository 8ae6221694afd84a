"""Tests of checkpoints of a single rank, of checkpoints that cannot be loaded, and of the coordinator of ranks."""

import json
import os
import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Thread

import pytest
import torch
import torch.distributed as dist
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

from trainer.errors import CheckpointError, ConfigError
from trainer.scale.checkpoint import CheckpointConfig, Checkpoints, Part, Rows, State, whole
from trainer.scale.checkpoint.coordinator import Coordinator
from trainer.world import World


def file_names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def open_checkpoints(single_rank_world: World, tmp_path: Path) -> Callable[..., Checkpoints]:
    """Return a function that opens checkpoints in the folder `kept`, of a small state unless `state` is given."""

    def make(state: State | None = None, warnings: list[str] | None = None, **config: object) -> Checkpoints:
        warn = (warnings if warnings is not None else []).append
        return Checkpoints(CheckpointConfig(str(tmp_path / "kept"), **config), state or small_state(), warn)

    return make


@pytest.fixture
def saved(open_checkpoints: Callable[..., Checkpoints]) -> Checkpoints:
    """Return checkpoints in that folder, of which step 1 is saved."""
    checkpoints = open_checkpoints()
    checkpoints.save(1, {})
    checkpoints.wait()
    return checkpoints


def small_state() -> State:
    return {
        "dense": whole(torch.arange(5.0)),
        "table.0.weight": Rows(6, [Part(0, torch.ones(2, 3)), Part(2, torch.ones(4, 3))]),
    }


def test_newest_checkpoints_are_kept_and_latest_returns_the_last(open_checkpoints, tmp_path: Path) -> None:
    checkpoints = open_checkpoints(keep=2)
    assert checkpoints.latest() is None
    for step in (5, 100_000_000, 10, 200_000_000):
        checkpoints.save(step, {})
    checkpoints.wait()
    assert file_names(tmp_path / "kept") == ["step-100000000", "step-200000000"]
    assert checkpoints.latest() == 200_000_000


def test_checkpoint_has_values_at_time_of_save(open_checkpoints) -> None:
    state = small_state()
    checkpoints = open_checkpoints(state)
    for step in (1, 2):  # the second save reuses the copies of the first
        state["dense"].parts[0][1].fill_(step)
        checkpoints.save(step, {"sum": 0.1 + 0.2, "none": float("nan")})
        state["dense"].parts[0][1].fill_(-1.0)
    checkpoints.wait()
    numbers = checkpoints.load(2)
    assert state["dense"].parts[0][1].tolist() == [2.0] * 5
    assert numbers["sum"] == 0.1 + 0.2
    assert str(numbers["none"]) == "nan"


def test_weights_that_are_not_finite_are_not_saved(open_checkpoints, tmp_path: Path) -> None:
    """A quality that is unknown is no number and is saved."""
    state = small_state() | {"quality.auc": whole(torch.tensor(float("nan")))}
    checkpoints = open_checkpoints(state)
    checkpoints.save(1, {})
    state["table.0.weight"].parts[1][1][3, 0] = float("nan")
    checkpoints.save(2, {})
    with pytest.raises(
        CheckpointError, match=r"step 2 was not saved in .*table\.0\.weight has values that are not finite"
    ):
        checkpoints.wait()
    assert file_names(tmp_path / "kept") == ["step-00000001"]


def test_save_issues_no_collective(open_checkpoints) -> None:
    checkpoints = open_checkpoints()
    before = dist.group.WORLD._get_sequence_number_for_group()
    checkpoints.save(1, {})
    checkpoints.wait()
    assert dist.group.WORLD._get_sequence_number_for_group() == before > 0


def test_saved_step_is_not_saved_again(open_checkpoints, tmp_path: Path) -> None:
    checkpoints = open_checkpoints()
    checkpoints.save(3, {"loss": 1.0})
    checkpoints.save(3, {"loss": 2.0})
    checkpoints.wait()
    assert json.loads((tmp_path / "kept" / "step-00000003" / "numbers.json").read_text()) == {"loss": 1.0}


def test_large_tables_are_saved_in_chunks(open_checkpoints, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("trainer.scale.checkpoint.rows.CHUNK_BYTES", 3 * 8)  # three numbers; a row has five
    weight = torch.randn(7, 5, dtype=torch.float64)
    before = weight.clone()
    state = {"table.0.weight": Rows(7, [Part(4, weight[:3]), Part(0, weight[3:])]), "dense": whole(torch.arange(8.0))}
    checkpoints = open_checkpoints(state)
    checkpoints.save(1, {})
    checkpoints.wait()
    weight.zero_()
    checkpoints.load(1)
    assert torch.equal(weight, before)


def test_torch_converter_reads_checkpoint(saved, tmp_path: Path) -> None:
    dcp_to_torch_save(tmp_path / "kept" / "step-00000001", tmp_path / "one.pt")
    tensors = torch.load(tmp_path / "one.pt")
    assert tensors["dense"].tolist() == [0, 1, 2, 3, 4]
    assert torch.equal(tensors["table.0.weight"], torch.ones(6, 3))


def test_resume_renames_later_checkpoints(open_checkpoints, tmp_path: Path) -> None:
    checkpoints = open_checkpoints()
    for step in (1, 2, 3):
        checkpoints.save(step, {"step": step})
    checkpoints.wait()
    warnings: list[str] = []
    assert open_checkpoints(warnings=warnings, resume="2").resume() == (2, {"step": 2})
    assert file_names(tmp_path / "kept") == ["step-00000001", "step-00000002", "step-00000003.aside-1"]
    assert "renamed later checkpoints to step-00000003.aside-1" in warnings[0]
    assert open_checkpoints(resume="none").resume() == (0, {})
    assert open_checkpoints(resume="auto").resume() == (0, {})


def test_resume_without_checkpoints_starts_at_step_0_without_warning(open_checkpoints) -> None:
    warnings: list[str] = []
    assert open_checkpoints(warnings=warnings).resume() == (0, {})
    assert warnings == []


def test_error_for_missing_step_lists_existing_steps(open_checkpoints) -> None:
    checkpoints = open_checkpoints()
    checkpoints.save(7, {})
    checkpoints.wait()
    with pytest.raises(
        CheckpointError, match=r"cannot load step 8 from .*: it does not exist; the steps in the folder are 7\. "
    ):
        open_checkpoints(resume="8").resume()


DIFFERENCES = [
    ({"table.0.weight": Rows(7, [Part(0, torch.ones(7, 3))])}, "table.0.weight has 6 rows in it, but 7 in this run"),
    ({"table.0.weight": Rows(6, [Part(0, torch.ones(6, 1), 3)], 4)}, "has rows of 3 in it, but of 4 in this run"),
    ({"table.0.weight": whole(torch.ones(6, 4))}, "table.0.weight has rows of 3 in it, but of 4 in this run"),
    ({"dense": whole(torch.arange(5))}, "dense is torch.float32 in it, but torch.int64 in this run"),
    ({"dense.exp_avg": whole(torch.ones(5))}, "it has no dense.exp_avg"),
]


@pytest.mark.parametrize(("change", "message"), DIFFERENCES)
def test_checkpoint_with_other_shape_type_or_name_is_refused(
    saved, open_checkpoints, change: State, message: str
) -> None:
    with pytest.raises(CheckpointError) as refused:
        open_checkpoints({**small_state(), **change}).resume()
    assert message in str(refused.value)


def test_checkpoint_with_unused_tensor_is_refused(saved, open_checkpoints) -> None:
    with pytest.raises(CheckpointError, match=r"it has table\.0\.weight, which this run does not train"):
        open_checkpoints({"dense": small_state()["dense"]}).resume()
    with pytest.raises(CheckpointError, match=r"it has no dense\.new but table\.0\.weight"):
        open_checkpoints({"dense": small_state()["dense"], "dense.new": whole(torch.ones(2))}).resume()


def test_damaged_checkpoint_is_refused(saved, open_checkpoints, tmp_path: Path) -> None:
    os.truncate(tmp_path / "kept" / "step-00000001" / "__0_0.distcp", 100)
    with pytest.raises(CheckpointError, match=r"cannot load step 1 from .*: rank 0: "):
        open_checkpoints().resume()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"every": 0}, "checkpoint.every is 0"),
        ({"keep": 0}, "checkpoint.keep is 0"),
        ({"resume": "last"}, "checkpoint.resume is last"),
        ({"timeout_seconds": 0.0}, "checkpoint.timeout_seconds is 0"),
    ],
)
def test_invalid_checkpoint_value_is_refused_with_its_key(value: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        CheckpointConfig(**value)


# -- the coordinator, with threads as ranks


def run_threads(*ranks: Callable[[Coordinator], object], timeout_seconds: float = 20) -> list[object]:
    """Run each rank in a thread, and return the results or errors."""
    store = dist.HashStore()
    results: list[object] = [None] * len(ranks)

    def run(rank: int) -> None:
        try:
            results[rank] = ranks[rank](Coordinator(store.clone(), rank, len(ranks), timeout_seconds))
        except CheckpointError as error:
            results[rank] = str(error)

    threads = [Thread(target=run, args=(rank,)) for rank in range(len(ranks))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def raise_disk_full() -> int:
    raise OSError(28, "No space left on device")


def test_all_ranks_get_result_that_rank_0_combines() -> None:
    assert run_threads(
        lambda coordinator: [coordinator.agree("", "", partial(int, number), sum) for number in (1, 2)],
        lambda coordinator: [coordinator.agree("", "", partial(int, number), sum) for number in (10, 20)],
    ) == [[11, 22], [11, 22]]


def agreeing(value=lambda: 1, combine=sum) -> Callable[[Coordinator], object]:
    """Return a rank that has a value, and combines those of all if it is rank 0."""
    return lambda coordinator: coordinator.agree("step 3 was not saved", "Make room", value, combine)


def test_error_of_a_rank_is_raised_by_all_ranks() -> None:
    line = "step 3 was not saved: rank 1: No space left on device. Make room"
    assert run_threads(agreeing(), agreeing(raise_disk_full)) == [line, line]
    failing = agreeing(combine=lambda _: raise_disk_full())
    assert run_threads(failing, agreeing()) == [line.replace("rank 1", "rank 0")] * 2


def test_rank_that_does_not_answer_is_named_by_other_ranks() -> None:
    results = run_threads(agreeing(), lambda _: None, agreeing(), timeout_seconds=0.2)
    assert results[0] == results[2]
    assert "rank 1 did not answer within 0.2 s" in str(results[0])
    assert "rank 0 did not answer" in str(run_threads(lambda _: None, agreeing(), timeout_seconds=0.1)[1])


class Evil:
    """A value whose pickle creates a file when it is read."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return Path.touch, (self.file,)


def test_pickle_in_the_store_is_an_error_and_not_run(tmp_path: Path) -> None:
    def send_pickle(coordinator: Coordinator) -> None:
        coordinator.store.set("1/1", pickle.dumps(("", Evil(tmp_path / "ran"))))

    results = run_threads(agreeing(), send_pickle)
    assert "1/1 in the store of the job is no value of a rank" in str(results[0])
    assert not (tmp_path / "ran").exists()


def test_code_in_a_checkpoint_is_not_run(saved, tmp_path: Path) -> None:
    (tmp_path / "kept/step-00000001/.metadata").write_bytes(pickle.dumps(Evil(tmp_path / "ran")))
    with pytest.raises(CheckpointError, match="no part of a table of chunks"):
        saved.load(1)
    assert not (tmp_path / "ran").exists()
