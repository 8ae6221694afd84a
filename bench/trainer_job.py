"""A rank that trains one model in several ways by turns, a block of steps each, and tells how long each step took.

Started by torchrun: `-m bench.trainer_job FOLDER SHAPE ROUNDS`. zmon is not attached: what watching costs is
measured elsewhere (bench.overhead).
"""

from __future__ import annotations

import gc
import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from bench.dlrm import Kept, Shape
from bench.floor import copies, products, work_of
from bench.plain_dlrm import Plain
from trainer.config import Config
from trainer.keys import apply_changes
from trainer.loader import Extent, Loaded, Loader
from trainer.planning import plan
from trainer.train import Trainer
from trainer.world import World, join, world_from

BLOCK, FIRST = 10, 3  # steps of a block; the first ones, whose caches are another's, do not count
PRODUCTS, COPY, PLAIN = "matrix products", "a copy of all bytes", "plain torch"
OURS = "ours"
_OFF = {"ids": "the next batch's ids do not travel early", "pooled": "vectors do not travel beside the bottom MLP",
        "gradients": "nothing travels during backward"}  # fmt: skip


def ways(config: Config) -> dict[str, Config]:
    """Ours by name: as it is, and with each optimization off in turn."""

    def off(*overlaps: str) -> dict[str, Any]:
        return {"overlap": dict.fromkeys(overlaps, False)}

    whole = apply_changes(config, [{"sharding": {"kind": "table_wise"}}])
    found = {
        OURS: config,
        f"{OURS}, all table_wise": whole,
        **{f"{OURS}, {what}": apply_changes(config, [off(name)]) for name, what in _OFF.items()},
        f"{OURS}, none of these, and no reading ahead": apply_changes(config, [off(*_OFF), {"loader": {"depth": 0}}]),
    }
    if importlib.util.find_spec("fbgemm_gpu") is not None:
        found[f"{OURS}, tables by FBGEMM"] = apply_changes(config, [{"embedding": {"kernel": "fbgemm"}}])
    return found


def main(folder: str, told_shape: str, rounds: str) -> None:
    """Write what was found into FOLDER/<rank>.json."""
    torch.set_num_threads(1)
    world = world_from(os.environ)
    join(world)
    shape = Shape(**json.loads(told_shape))
    source = Kept(shape)
    work = work_of(shape, world.size, source.different())
    trainers, steps = {}, {PRODUCTS: products(shape, world.size), COPY: copies(work.traffic)}
    steps[PLAIN] = Plain(shape, _batches(shape, source, world, depth=0)).step
    for name, config in ways(shape.config()).items():
        trainers[name] = Trainer(config, world, plan(config, world))
        batches = _batches(shape, source, world, config.loader.depth)
        trainers[name].load_next(batches)
        steps[name] = _step(trainers[name], batches)
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    processor: dict[str, list[float]] = {name: [] for name in steps}
    gc.collect()
    gc.freeze()
    for number in range(int(rounds) + 1):
        for name in reversed(steps) if number % 2 else steps:
            taken, of_processor = _block(steps[name])
            if number:  # the first round warms up
                seconds[name] += taken
                processor[name].append(of_processor)
    told = {
        "seconds": seconds,
        "processor": processor,
        "work": {"operations": work.operations, "traffic": work.traffic},
        "plan": [placed.kind for placed in trainers[OURS].plan.tables],
    }
    (Path(folder) / f"{world.rank}.json").write_text(json.dumps(told))
    dist.destroy_process_group()


def _batches(shape: Shape, source: Kept, world: World, depth: int) -> Iterator[Loaded]:
    return Loader(source, Extent.of_steps(None, shape.global_batch), world.rank, world.size, depth)


def _step(trainer: Trainer, batches: Iterator[Loaded]) -> Callable[[], object]:
    return lambda: trainer.step(batches)


def _block(step: Callable[[], object]) -> tuple[list[float], float]:
    """Seconds of each step but the first ones, and processor time of all threads a step; all ranks begin together."""
    dist.barrier()
    for _ in range(FIRST):
        step()
    processor, ends = time.process_time(), [time.perf_counter()]
    for _ in range(BLOCK - FIRST):
        step()
        ends.append(time.perf_counter())
    return [end - begin for begin, end in pairwise(ends)], (time.process_time() - processor) / (BLOCK - FIRST)


if __name__ == "__main__":
    main(*sys.argv[1:])
