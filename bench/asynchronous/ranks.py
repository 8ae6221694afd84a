"""A rank of the synchronous trainer, on the samples of the asynchronous job.

torchrun starts it as `-m bench.asynchronous.ranks FOLDER SEED STEPS HELD_OUT even|slow`. It writes FOLDER/<rank>.json.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.distributed as dist

import zmon
from bench.asynchronous.job import configuration, source_of
from bench.asynchronous.readers import Slowed
from trainer.batch import StepBatch
from trainer.loader import Extent, Loader
from trainer.loop import evaluate, steps
from trainer.scale.planning import plan
from trainer.train import Trainer
from trainer.world import join, world_from


def main(folder: str, seed: str, num_steps: str, held_out: str, speed: str) -> None:
    """Train and evaluate."""
    torch.set_num_threads(1)
    zmon.attach()
    world = world_from(os.environ)
    join(world)
    config = configuration(int(seed), int(num_steps), int(held_out))
    source = source_of(config)
    train = config.train
    trainer = Trainer(config, world, plan(config, world).tables)
    dist.barrier()
    begin = time.perf_counter()
    extent = Extent.of_steps(train.steps, train.global_batch)
    with Loader(source, extent, world.rank, world.size, config.loader.depth) as loader:
        batches: Iterator[StepBatch] = loader
        if speed == "slow" and world.rank == world.size - 1:
            batches = Slowed(loader)
        for _ in steps(trainer, batches):
            pass
    seconds = time.perf_counter() - begin
    quality = evaluate(trainer, source.held_out())
    result = {
        "samples_per_second": train.steps * train.global_batch / seconds,
        "entropy": quality.normalized_entropy,
        "auc": quality.auc,
    }
    (Path(folder) / f"{world.rank}.json").write_text(json.dumps(result))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
