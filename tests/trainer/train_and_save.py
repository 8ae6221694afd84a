"""The script of each rank of test_exactness.py: it trains every variant and saves weights, states and losses.

Usage: train_and_save.py STEPS OUT VARIANTS; VARIANTS is a JSON object of changes by name (trainer.keys.apply_changes).
"""

import json
import os
import sys
from dataclasses import replace
from itertools import islice
from pathlib import Path

import torch
import torch.distributed as dist

from trainer import loop
from trainer.keys import apply_changes
from trainer.loader import Loader, Source
from trainer.scale.presets import demo
from trainer.scale.run import Run, extent, open_source
from trainer.world import World, join, world_from


def main(steps: int, out: Path, variants: dict) -> None:
    """Train each variant, and save its result."""
    world = world_from(os.environ)
    world = replace(world, local_size=max(1, world.size // 2))  # as if the ranks were on two hosts
    join(world)
    for name, changes in variants.items():
        torch.save(train(apply_changes(demo(), changes), world, steps), out / f"{name}-{world.rank}.pt")
    dist.destroy_process_group()


def train(config, world: World, steps: int, source: Source | None = None) -> dict:
    """Train some steps; return the parts of each tensor of this rank, and the losses."""
    source = source or open_source(config, world)
    run = Run(config, world, source)
    with Loader(source, extent(config, source), world.rank, world.size, depth=1) as batches:
        results = islice(loop.steps(run.trainer, batches), steps)
        losses = [result.sums.numbers().log_loss for result in results]
    tensors = {
        name: [(part.first_row, part.read(), part.first_column) for part in rows.parts]
        for name, rows in run.state().items()
    }
    return {"losses": losses, "tensors": tensors}


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3]))
