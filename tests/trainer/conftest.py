"""Fixtures of the trainer's tests. All rows are made up; no sample comes from a real data set."""

import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from tests.conftest import Zygote
from tests.places import REPOSITORY
from tests.ranks import ABORTED_AT_THE_END, TRIES, run_ranks
from trainer.keys import apply_changes
from trainer.scale.config import RunConfig
from trainer.scale.presets import demo
from trainer.scale.run import Run, open_source
from trainer.world import World, join

torch.set_num_threads(1)  # models are small: a second thread on a busy machine makes them ten times slower

TRAINER = str(REPOSITORY / "trainer/__main__.py")  # the script of a rank
SMALL = {  # five tables for four ranks, so shards are uneven; few rows, so a batch looks many rows up twice
    "embedding": {"rows": [40, 7, 90, 1, 25], "dim": 4},
    "model": {"dense_features": 3, "bottom": [8], "top": [8]},
    "train": {"global_batch": 32},
}


@pytest.fixture
def small_config() -> Callable[..., RunConfig]:
    """Return a function that builds a configuration with steps of a millisecond, given nested changes."""
    return lambda *changes: apply_changes(demo(), [SMALL, *changes])


@pytest.fixture
def single_rank_world() -> Iterator[World]:
    """Yield the world of a single rank, which has joined a process group in this process."""
    world = World(rank=0, size=1)
    join(world)
    yield world
    dist.destroy_process_group()


@pytest.fixture
def open_run(single_rank_world: World) -> Callable[[RunConfig], Run]:
    """Return a function that opens the run of a configuration on one rank."""
    return lambda config: Run(config, single_rank_world, open_source(config, single_rank_world))


@pytest.fixture
def small_run(small_config: Callable[..., RunConfig], open_run: Callable[[RunConfig], Run]) -> Callable[..., Run]:
    """Return a function that opens a small run on one rank, given nested changes of its configuration."""
    return lambda *changes: open_run(small_config(*changes))


@pytest.fixture
def write_rows(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes made-up rows to a TSV; each row is a list of 40 cells."""

    def write(*rows: list[str]) -> Path:
        file = tmp_path / "rows.tsv"
        file.write_text("".join("\t".join(row) + "\n" for row in rows))
        return file

    return write


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Yield the folder `kept`, on which a file system of 1 MB is mounted."""
    if os.geteuid():
        pytest.skip("only root may mount")
    (tmp_path / "kept").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", tmp_path / "kept"], check=True)
    yield tmp_path / "kept"
    subprocess.run(["umount", tmp_path / "kept"], check=True)


def assembled(parts: Iterable[tuple[int, torch.Tensor, int]]) -> torch.Tensor:
    """Return the tensor of these parts (first row, part, first column); parts at one place must be bit-identical."""
    by_row: dict[int, dict[int, torch.Tensor]] = {}
    for first_row, part, first_column in parts:
        assert torch.equal(by_row.setdefault(first_row, {}).setdefault(first_column, part), part)
    ranges = [columns for _, columns in sorted(by_row.items()) if any(len(part) for part in columns.values())]
    return torch.cat(
        [  # a part in one dimension has no columns to join
            torch.cat([columns[first] for first in sorted(columns)], dim=1) if len(columns) > 1 else columns[0]
            for columns in ranges
        ]
    )


RunRanks = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def trainer_zygote() -> Iterator[Zygote]:
    """Yield a process that forks ranks with torch and the trainer already imported. It starts once."""
    zygote = Zygote("torch._dynamo", "torch.distributed.checkpoint", "trainer.scale.run", "zmon.probe.hooks")
    yield zygote
    assert zygote.process.stdin is not None
    zygote.process.stdin.close()
    zygote.process.wait(timeout=10)


@pytest.fixture
def start(trainer_zygote: Zygote, tmp_path: Path) -> RunRanks:
    """Return a function that runs a script on real ranks without a launcher and waits for them; see `run_ranks`."""
    return lambda ranks, *command, **more: run_ranks(trainer_zygote, tmp_path / "logs", ranks, *command, **more)


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of a launcher whose ranks have their boxes in this folder."""
    return os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(REPOSITORY), "ZMON_BOX_DIR": str(folder / "boxes")}


@pytest.fixture
def launch(tmp_path: Path) -> RunRanks:
    """Return a function that runs ranks with torchrun, or one without a launcher if `ranks` is 0, and waits for them.

    It tries again if torch itself aborted a rank that had finished (see tests/ranks.py).
    """

    def run(ranks: int, *arguments: str) -> subprocess.CompletedProcess[str]:
        launcher = [sys.executable]
        if ranks:
            launcher += ["-m", "torch.distributed.run", "--nproc-per-node", str(ranks)]
        for _ in range(TRIES):
            ended = subprocess.run(
                [*launcher, *arguments],
                env=environment(tmp_path),
                capture_output=True,
                text=True,
                timeout=90,
                cwd=REPOSITORY,
                check=False,
            )
            if ABORTED_AT_THE_END not in ended.stderr:
                break
            warnings.warn("torch aborted a rank at its very end", stacklevel=2)
        return ended

    return run
