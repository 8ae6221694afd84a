"""Tests of the core that people copy: it is small, has no import cycle, and trains without the rest of the trainer."""

import os
import shutil
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from grimp import ImportGraph, build_graph

from tests.places import REPOSITORY

MAX_MODULES = 22  # of those that `import trainer.train` loads; the files of the commands are not among them
MAX_LINES = 2300  # of all these modules
COMMANDS = {"trainer.__main__", "trainer.plan", "trainer.prepare", "trainer.rotate_key"}
LIST_FILES = """
import sys, trainer.train
print(*(module.__file__ for name, module in sys.modules.items() if name.partition(".")[0] == "trainer"), sep="\\n")
"""
TRAIN = """
import os, sys
import torch
from trainer.batch import Batch, StepBatch
from trainer.config import Config, TrainConfig
from trainer.sharding import Placement
from trainer.tables import EmbeddingConfig
from trainer.train import Trainer
from trainer.world import join, world_from

world = world_from(os.environ)
join(world)
generator = torch.Generator().manual_seed(1)
config = Config(EmbeddingConfig(rows=(50, 20, 7), dim=8), TrainConfig(global_batch=64))
placements = [Placement("table_wise", (0,)), Placement("table_wise", (0,)), Placement("data_parallel", (0,))]
trainer = Trainer(config, world, placements)
dense = torch.randn(64, config.model.dense_features, generator=generator)
ids = torch.cat([torch.randint(0, rows, (64,), generator=generator) for rows in config.embedding.rows])
samples = Batch(dense, ids, torch.ones(3, 64, dtype=torch.int64), (dense[:, 0] > 0).float())
batches = (StepBatch(step, 64, samples) for step in range(20))
batch, losses = trainer.load(batches), []
while batch is not None:
    result, batch = trainer.step(batch, 1.0, batches)
    losses.append(result.sums.numbers().log_loss / result.samples)
assert "trainer.scale" not in sys.modules
print(trainer.__class__.__module__, len(losses), losses[0], losses[-1], sys.modules["trainer"].__file__)
"""


def run(code: str, folder: Path) -> list[str]:
    """Run a program in this folder, which is first on its path; return the words that it prints."""
    env = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**env, "PYTHONPATH": str(REPOSITORY), "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.fixture(scope="module")
def core_files() -> list[Path]:
    """Return the files of the package that `import trainer.train` loads."""
    return [Path(file) for file in run(LIST_FILES, REPOSITORY)]


@pytest.fixture(scope="module")
def graph() -> ImportGraph:
    """Return the imports between all modules of the trainer."""
    return build_graph("trainer", cache_dir=None)


def test_the_core_is_small(core_files: list[Path]) -> None:
    assert REPOSITORY / "trainer/train.py" in core_files
    assert len(core_files) <= MAX_MODULES
    assert sum(len(file.read_text().splitlines()) for file in core_files) <= MAX_LINES


def test_the_core_alone_trains(core_files: list[Path], tmp_path: Path) -> None:
    for file in core_files:
        copy = tmp_path / file.relative_to(REPOSITORY)
        copy.parent.mkdir(exist_ok=True)
        shutil.copy(file, copy)
    _, steps, first, last, package = run(TRAIN, tmp_path)
    assert Path(package).parents[1] == tmp_path
    assert steps == "20"
    assert float(last) < 0.8 * float(first)


def test_only_the_commands_import_what_is_not_core(graph: ImportGraph) -> None:
    importers = {
        importer
        for module in graph.modules
        if module.startswith("trainer.scale")
        for importer in graph.find_modules_that_directly_import(module)
    }
    assert {importer for importer in importers if not importer.startswith("trainer.scale")} == COMMANDS


def test_there_is_no_import_cycle(graph: ImportGraph) -> None:
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert len(list(TopologicalSorter(imports).static_order())) == len(graph.modules)  # raises CycleError
