"""Tests of checkpoints with real ranks.

A resumed run is bit-identical, also with other ranks and sharding kinds, and after a kill during a save. A full disk
ends all ranks.
"""

import subprocess
from pathlib import Path

import pytest
import torch

from tests.conftest import Zygote
from tests.ranks import run_ranks
from tests.trainer.build import file_names
from tests.trainer.conftest import RunRanks, assembled

pytestmark = pytest.mark.e2e

SCRIPT = str(Path(__file__).with_name("save_and_resume.py"))


@pytest.fixture
def run(start: RunRanks, tmp_path: Path) -> RunRanks:
    """Return a function that runs the script on some ranks, with checkpoints in `kept`."""
    return lambda ranks, *more: start(ranks, SCRIPT, str(tmp_path / "kept"), *more)


@pytest.fixture(scope="module")
def uninterrupted(trainer_zygote: Zygote, tmp_path_factory: pytest.TempPathFactory) -> dict[str, torch.Tensor]:
    """Return the tensors after six steps without an interruption."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    ended = run_ranks(trainer_zygote, folder / "logs", 1, SCRIPT, str(folder / "kept"), "--steps", "6", "--every", "9")
    assert ended.returncode == 0, ended.stderr
    return tensors(folder / "out")


def tensors(out: Path) -> dict[str, torch.Tensor]:
    """Return all tensors at the end, assembled from all ranks; rows that several ranks have must be bit-identical."""
    parts_of: dict[str, list[tuple[int, torch.Tensor, int]]] = {}
    for file in out.glob("*.pt"):
        for name, parts in torch.load(file).items():
            parts_of.setdefault(name, []).extend(parts)
    return {name: assembled(parts) for name, parts in parts_of.items()}


def equal(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> bool:
    """Return True if the tensors are the same, bit for bit."""
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


def test_resumed_run_is_bit_identical_on_same_number_of_ranks(
    run: RunRanks, tmp_path: Path, uninterrupted: dict[str, torch.Tensor]
) -> None:
    assert run(2, "--steps", "5").returncode == 0
    ended = run(2, "--steps", "6", "--sync")
    assert "resumed at 4 with {'loss': 0.25, 'lifetime': 4}" in ended.stdout
    assert equal(tensors(tmp_path / "out"), uninterrupted)


def test_resumed_run_is_bit_identical_with_another_number_of_ranks_and_other_sharding_kinds(
    run: RunRanks, tmp_path: Path, uninterrupted: dict[str, torch.Tensor]
) -> None:
    assert run(1, "--steps", "2", "--kinds", "table_wise,data_parallel,row_wise").returncode == 0
    assert run(4, "--steps", "4", "--kinds", "column_wise,table_row_wise,data_parallel").returncode == 0
    for file in (tmp_path / "out").glob("*.pt"):  # four ranks left files that two ranks would not replace
        file.unlink()
    ended = run(2, "--steps", "6", "--kinds", "table_row_wise,row_wise,column_wise")
    assert "resumed at 4" in ended.stdout
    assert equal(tensors(tmp_path / "out"), uninterrupted)


@pytest.mark.parametrize(("when", "rank"), [("write_data", "1"), ("finish", "0"), ("write_data", "all")])
def test_run_resumes_from_the_checkpoint_before_a_killed_save(
    run: RunRanks, tmp_path: Path, uninterrupted: dict[str, torch.Tensor], when: str, rank: str
) -> None:
    assert run(2, "--die", when, "4", rank).returncode != 0  # at step 4
    assert file_names(tmp_path / "kept") == ["step-00000002", "step-00000004.partial"]

    ended = run(1, "--steps", "6")
    assert "resumed at 2" in ended.stdout
    assert "deleted the remains of 1 interrupted save" in ended.stderr
    assert file_names(tmp_path / "kept") == ["step-00000002", "step-00000004", "step-00000006"]
    assert equal(tensors(tmp_path / "out"), uninterrupted)


@pytest.mark.slow  # it starts torchrun, and its ranks twice
def test_ranks_restarted_by_torchrun_resume(
    launch: RunRanks, tmp_path: Path, uninterrupted: dict[str, torch.Tensor]
) -> None:
    ended = launch(
        2, "--standalone", "--max-restarts", "1", SCRIPT, str(tmp_path / "kept"), "--die", "write_data", "4", "1"
    )
    assert ended.returncode == 0
    assert "resumed at 2" in ended.stdout
    assert equal(tensors(tmp_path / "out"), uninterrupted)


@pytest.mark.parametrize("options", [(), ("--sync",)], ids=["asynchronous", "synchronous"])
def test_full_disk_ends_all_ranks_and_keeps_older_checkpoints(
    run: RunRanks, small_disk: Path, options: tuple[str, ...]
) -> None:
    ended = run(2, "--more-rows", "128", *options)  # a checkpoint has 0.4 MB; the disk has 1 MB
    assert ended.returncode != 0
    lines = [line for line in ended.stderr.splitlines() if "No space left on device" in line]
    assert sorted(line.split(": ")[1] for line in lines) == ["rank 0", "rank 1"]
    assert len({line.split(": ", 2)[2] for line in lines}) == 1  # both ranks have the same error
    assert f"step 6 was not saved in {small_disk}: rank " in lines[0]
    assert file_names(small_disk) == ["step-00000002", "step-00000004"]


def test_read_only_folder_ends_all_ranks_with_error(run: RunRanks, small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    ended = run(2)
    assert ended.returncode != 0
    assert ended.stderr.count("step 2 was not saved in") == 2
    assert "Read-only file system" in ended.stderr


def test_file_size_limit_ends_all_ranks_and_leaves_no_checkpoint(run: RunRanks, tmp_path: Path) -> None:
    ended = run(2, "--largest-file", "1000")
    assert ended.returncode != 0
    assert ended.stderr.count("File too large") == 2
    assert file_names(tmp_path / "kept") == []
