"""Tests of checkpoints of a single rank, and of checkpoints that cannot be loaded."""

import json
import math
import os
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
from torch.distributed.checkpoint.metadata import _MEM_FORMAT_ENCODING

from tests.evil_pickle import EvilPickle
from tests.trainer.build import file_names
from trainer.errors import CheckpointError, ConfigError
from trainer.scale.checkpoint import CheckpointConfig, Checkpoints, Part, Rows, State, whole, writer
from trainer.world import World

OpenCheckpoints = Callable[..., Checkpoints]


def save(checkpoints: Checkpoints, *steps: int) -> None:
    """Save these steps, and wait until they are saved."""
    for step in steps:
        checkpoints.save(step, {"step": step})
    checkpoints.wait()


@pytest.fixture
def open_checkpoints(single_rank_world: World, tmp_path: Path) -> OpenCheckpoints:
    """Return a function that opens checkpoints in the folder `kept`, of a small state unless `state` is given."""

    def make(state: State | None = None, warnings: list[str] | None = None, **config: object) -> Checkpoints:
        warn = (warnings if warnings is not None else []).append
        return Checkpoints(CheckpointConfig(str(tmp_path / "kept"), **config), state or small_state(), warn)

    return make


@pytest.fixture
def saved(open_checkpoints: OpenCheckpoints) -> Checkpoints:
    """Return checkpoints in the folder `kept`, of which step 1 is saved."""
    checkpoints = open_checkpoints()
    save(checkpoints, 1)
    return checkpoints


def small_state() -> State:
    """Return a dense tensor, and a table in two parts."""
    return {
        "dense": whole(torch.arange(5.0)),
        "table.0.weight": Rows(6, [Part(0, torch.ones(2, 3)), Part(2, torch.ones(4, 3))]),
    }


def test_newest_checkpoints_are_kept_and_the_newest_one_is_resumed(
    open_checkpoints: OpenCheckpoints, tmp_path: Path
) -> None:
    checkpoints = open_checkpoints(keep=2)
    checkpoints.resume()
    save(checkpoints, 5, 100_000_000, 10, 200_000_000)
    assert file_names(tmp_path / "kept") == ["step-100000000", "step-200000000"]
    assert checkpoints.resume() == (200_000_000, {"step": 200_000_000})


def test_checkpoint_has_values_at_time_of_save(open_checkpoints: OpenCheckpoints) -> None:
    state = small_state()
    checkpoints = open_checkpoints(state)
    for step in (1, 2):  # the second save reuses the copies of the first
        state["dense"].parts[0].tensor.fill_(step)
        checkpoints.save(step, {"sum": 0.1 + 0.2, "unknown": math.nan})
        state["dense"].parts[0].tensor.fill_(-1.0)
    checkpoints.wait()
    numbers = checkpoints.load(2)
    assert state["dense"].parts[0].tensor.tolist() == [2.0] * 5
    assert numbers["sum"] == 0.1 + 0.2
    assert math.isnan(numbers["unknown"])


def test_save_issues_no_collective(open_checkpoints: OpenCheckpoints) -> None:
    checkpoints = open_checkpoints()
    before = dist.group.WORLD._get_sequence_number_for_group()
    save(checkpoints, 1)
    assert dist.group.WORLD._get_sequence_number_for_group() == before > 0


def test_saved_step_is_not_saved_again(open_checkpoints: OpenCheckpoints, tmp_path: Path) -> None:
    checkpoints = open_checkpoints()
    checkpoints.save(3, {"loss": 1.0})
    checkpoints.save(3, {"loss": 2.0})
    checkpoints.wait()
    assert json.loads((tmp_path / "kept" / "step-00000003" / "numbers.json").read_text()) == {"loss": 1.0}


def test_large_tables_are_saved_in_chunks(
    open_checkpoints: OpenCheckpoints, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("trainer.scale.checkpoint.rows.CHUNK_BYTES", 3 * 8)  # three numbers; a row has five
    weight = torch.randn(7, 5, dtype=torch.float64)
    before = weight.clone()
    state = {"table.0.weight": Rows(7, [Part(4, weight[:3]), Part(0, weight[3:])]), "dense": whole(torch.arange(8.0))}
    checkpoints = open_checkpoints(state)
    save(checkpoints, 1)
    weight.zero_()
    checkpoints.load(1)
    assert torch.equal(weight, before)


def test_torch_converter_reads_checkpoint(saved: Checkpoints, tmp_path: Path) -> None:
    dcp_to_torch_save(tmp_path / "kept" / "step-00000001", tmp_path / "one.pt")
    tensors = torch.load(tmp_path / "one.pt")
    assert tensors["dense"].tolist() == [0, 1, 2, 3, 4]
    assert torch.equal(tensors["table.0.weight"], torch.ones(6, 3))


def test_resume_renames_later_checkpoints(open_checkpoints: OpenCheckpoints, tmp_path: Path) -> None:
    checkpoints = open_checkpoints()
    save(checkpoints, 1, 2, 3)
    warnings: list[str] = []
    assert open_checkpoints(warnings=warnings, resume="2").resume() == (2, {"step": 2})
    assert file_names(tmp_path / "kept") == ["step-00000001", "step-00000002", "step-00000003.aside-1"]
    assert "renamed later checkpoints to step-00000003.aside-1" in warnings[0]
    assert open_checkpoints(resume="none").resume() == (0, {})
    assert open_checkpoints(resume="auto").resume() == (0, {})


def save_not_finite(checkpoints: Checkpoints, steps: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Save these steps with a NaN, as an earlier version did."""
    checkpoints.state["table.0.weight"].parts[1].tensor[2, 1] = math.nan
    with monkeypatch.context() as patch:
        patch.setattr(writer, "not_finite", lambda tensors: "")
        save(checkpoints, *steps)


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("bad", [math.nan, -math.inf])
def test_weights_that_are_not_finite_are_not_saved(
    open_checkpoints: OpenCheckpoints, tmp_path: Path, bad: float, asynchronous: bool
) -> None:
    checkpoints = open_checkpoints(asynchronous=asynchronous)
    checkpoints.save(1, {"loss": math.nan})
    checkpoints.wait()
    checkpoints.state["table.0.weight"].parts[1].tensor[2, 1] = bad
    with pytest.raises(CheckpointError, match=r"^step 2 was not saved .*: rank 0: table\.0\.weight has values .*NaN"):
        save(checkpoints, 2)
    assert file_names(tmp_path / "kept") == ["step-00000001"]


def test_quality_may_be_undefined(open_checkpoints: OpenCheckpoints) -> None:
    checkpoints = open_checkpoints({"quality.all": whole(torch.tensor([math.nan]))})
    save(checkpoints, 1)
    step, _ = open_checkpoints({"quality.all": whole(torch.zeros(1))}).resume()
    assert step == 1


def test_resume_skips_checkpoints_that_are_not_finite(
    saved: Checkpoints, open_checkpoints: OpenCheckpoints, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_not_finite(saved, (2, 3), monkeypatch)
    with pytest.raises(CheckpointError, match=r"cannot load step 3 .* table\.0\.weight has values that are NaN"):
        open_checkpoints(resume="3").resume()
    state, warnings = small_state(), []
    assert open_checkpoints(state, warnings).resume() == (1, {"step": 1})
    assert state["table.0.weight"].parts[1].tensor.isfinite().all()
    assert [line.partition(": ")[2].partition(",")[0] for line in warnings] == [
        "skipped step 3", "skipped step 2", "renamed later checkpoints to step-00000002.aside-1"
    ]  # fmt: skip
    assert file_names(tmp_path / "kept") == ["step-00000001", "step-00000002.aside-1", "step-00000003.aside-1"]


def test_folder_without_finite_checkpoint_is_refused(
    open_checkpoints: OpenCheckpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the run would silently begin again at step 0."""
    save_not_finite(open_checkpoints(), (1,), monkeypatch)
    with pytest.raises(CheckpointError, match=r"cannot resume from .*: no checkpoint in it is finite"):
        open_checkpoints().resume()


def test_resume_without_checkpoints_starts_at_step_0_without_warning(open_checkpoints: OpenCheckpoints) -> None:
    warnings: list[str] = []
    assert open_checkpoints(warnings=warnings).resume() == (0, {})
    assert warnings == []


def test_error_for_missing_step_lists_existing_steps(open_checkpoints: OpenCheckpoints) -> None:
    checkpoints = open_checkpoints()
    save(checkpoints, 7)
    with pytest.raises(CheckpointError, match=r"cannot load step 8 .*: it does not exist; the steps in .* are 7\. "):
        open_checkpoints(resume="8").resume()


DENSE = {"dense": whole(torch.ones(5))}
DIFFERENCES = [  # the state of this run, and what is said of the saved one
    (DENSE | {"table.0.weight": Rows(7, [Part(0, torch.ones(7, 3))])}, "weight has 6 rows in it, but 7 in this run"),
    (DENSE | {"table.0.weight": Rows(6, [Part(0, torch.ones(6, 1), 3)], 4)}, "has rows of 3 in it, but of 4 in"),
    (DENSE | {"table.0.weight": whole(torch.ones(6, 4))}, "table.0.weight has rows of 3 in it, but of 4 in this run"),
    (small_state() | {"dense": whole(torch.ones(5).long())}, "dense is torch.float32 in it, but torch.int64 in this"),
    (small_state() | {"dense.exp_avg": whole(torch.ones(5))}, "it has no dense.exp_avg"),
    (DENSE, "it has table.0.weight, which this run does not train"),
    (DENSE | {"dense.new": whole(torch.ones(2))}, "it has no dense.new but table.0.weight"),
]


@pytest.mark.parametrize(("state", "message"), DIFFERENCES)
def test_checkpoint_with_other_shape_type_or_name_is_refused(
    saved: Checkpoints, open_checkpoints: OpenCheckpoints, state: State, message: str
) -> None:
    with pytest.raises(CheckpointError) as refused:
        open_checkpoints(state).resume()
    assert message in str(refused.value)


def test_damaged_checkpoint_is_refused(saved: Checkpoints, open_checkpoints: OpenCheckpoints, tmp_path: Path) -> None:
    os.truncate(tmp_path / "kept" / "step-00000001" / "__0_0.distcp", 100)
    with pytest.raises(CheckpointError, match=r"cannot load step 1 from .*: rank 0: "):
        open_checkpoints().resume()


def test_checkpoint_that_python_3_11_2_wrote_is_resumed(
    open_checkpoints: OpenCheckpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Debian 12 has this Python, whose enumerations write their members as calls of getattr."""
    with monkeypatch.context() as patch:
        patch.setattr(_MEM_FORMAT_ENCODING, "__reduce_ex__", lambda self, _: (getattr, (type(self), self.name)))
        checkpoints = open_checkpoints()
        save(checkpoints, 1)
    checkpoints.load(1)


class Call:
    """A value whose pickle calls a function."""

    def __init__(self, function: Callable[..., object], *arguments: object) -> None:
        self.call = function, arguments

    def __reduce__(self) -> object:
        return self.call


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (Call(getattr, torch.Size, "__init__"), "__init__ of .*"),
        (Call(torch.serialization._get_layout, "torch.sparse_csr"), "the layout torch.sparse_csr"),
    ],
)
def test_call_in_a_checkpoint_returns_parts_of_a_table_only(saved, tmp_path: Path, call: Call, name: str) -> None:
    (tmp_path / "kept/step-00000001/.metadata").write_bytes(pickle.dumps(call))
    with pytest.raises(CheckpointError, match=rf"asks for {name}, which is not part of a table of chunks") as raised:
        saved.load(1)
    assert "\n" not in str(raised.value)


def test_code_in_a_checkpoint_is_not_run(saved: Checkpoints, tmp_path: Path) -> None:
    (tmp_path / "kept/step-00000001/.metadata").write_bytes(pickle.dumps(EvilPickle(tmp_path / "ran")))
    with pytest.raises(CheckpointError, match="not part of a table of chunks"):
        saved.load(1)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"every": 0}, "checkpoint.every is 0"),
        ({"keep": 0}, "checkpoint.keep is 0"),
        ({"resume": "last"}, "checkpoint.resume is last"),
        ({"timeout_seconds": 0.0}, "checkpoint.timeout_seconds is 0"),
        ({"timeout_seconds": math.inf}, "checkpoint.timeout_seconds is inf"),
    ],
)
def test_invalid_checkpoint_value_is_refused_with_its_key(value: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        CheckpointConfig(**value)
