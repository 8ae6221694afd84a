"""A rank that trains one model with all trainers in turns, and measures each step.

torchrun starts it as `-m bench.rivals.job FOLDER SHAPE ROUNDS DLRM`. SHAPE is a bench.dlrm.Shape as JSON, DLRM a
checkout of facebookresearch/dlrm or empty. It first trains CHECKED steps with each trainer and records their losses.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist

from bench.dlrm import RepeatingSource, Shape
from bench.rivals import dlrm
from bench.rivals.start import EPSILON, RATE
from bench.trainer_job import batches_of, in_turns, join_ranks
from trainer import loop
from trainer.keys import apply_changes
from trainer.scale.planning import plan
from trainer.train import Trainer
from trainer.world import World

OURS, OURS_SGD, OURS_BF16 = "ours", "ours, SGD", "ours, bf16"
DLRM, DLRM_SGD, TORCHREC = "dlrm", "dlrm, SGD", "TorchRec"
CHECKED = 10  # steps


def main(folder: str, shape_json: str, rounds: str, dlrm_path: str) -> None:
    """Record losses, measure in turns, and write the results to FOLDER/<rank>.json."""
    shape, world, source = join_ranks(shape_json)
    steps: dict[str, Callable[[], float]] = {
        OURS: _ours(shape, source, world, "rowwise_adagrad", "adagrad"),
        OURS_SGD: _ours(shape, source, world, "sgd", "sgd"),
        OURS_BF16: _ours(shape, source, world, "rowwise_adagrad", "adagrad", bfloat16=True),
    }
    if dlrm_path:
        steps[DLRM] = dlrm.steps(Path(dlrm_path), shape, source, world, "rowwise_adagrad")
        steps[DLRM_SGD] = dlrm.steps(Path(dlrm_path), shape, source, world, "sgd")
    if importlib.util.find_spec("torchrec") is not None:
        from bench.rivals import torchrec

        steps[TORCHREC] = torchrec.steps(shape, source, world)
    losses = {name: _losses(step) for name, step in steps.items()}
    seconds, cpu_seconds = in_turns({**steps}, int(rounds))
    result = {"losses": losses, "seconds": seconds, "cpu_seconds": cpu_seconds}
    (Path(folder) / f"{world.rank}.json").write_text(json.dumps(result))
    dist.destroy_process_group()


def _ours(
    shape: Shape, source: RepeatingSource, world: World, embedding: str, dense: str, bfloat16: bool = False
) -> Callable[[], float]:
    """Return the step of our trainer; with `bfloat16`, its matrix products are computed in it."""
    optimizer = {
        "embedding": embedding, "dense": dense, "dense_learning_rate": RATE, "embedding_learning_rate": RATE,
        "dense_epsilon": EPSILON, "embedding_epsilon": EPSILON,
    }  # fmt: skip
    config = apply_changes(shape.config(), [{"optimizer": optimizer, "train": {"cpu_autocast": bfloat16}}])
    trainer = Trainer(config, world, plan(config, world).tables)
    results = loop.steps(trainer, batches_of(shape, source, world, config.loader.depth))

    def step() -> float:
        result = next(results)
        return result.sums.numbers().log_loss / result.samples

    return step


def _losses(step: Callable[[], float]) -> list[float]:
    """Return the losses of the first steps, as means over the ranks."""
    losses = torch.tensor([step() for _ in range(CHECKED)], dtype=torch.float64)
    dist.all_reduce(losses)
    return list((losses / dist.get_world_size()).tolist())


if __name__ == "__main__":
    main(*sys.argv[1:])
