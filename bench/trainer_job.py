"""A rank that trains one model with several variants in turns, a block of steps each, and measures each step.

torchrun starts it as `-m bench.trainer_job FOLDER SHAPE ROUNDS`. zmon is not attached; bench.overhead measures the cost
of monitoring.
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

from bench.dlrm import RepeatingSource, Shape
from bench.floor import copies, products, work_of
from bench.plain_dlrm import PlainTrainer
from trainer.config import Config
from trainer.keys import apply_changes
from trainer.loader import Extent, Loaded, Loader
from trainer.planning import plan
from trainer.train import Trainer
from trainer.world import World, join, world_from

BLOCK, FIRST = 10, 3  # steps of a block; the first 3 do not count, because the caches hold data of another variant
PRODUCTS, COPY, PLAIN = "matrix products", "a copy of all bytes", "plain torch"
OURS = "ours"
_OVERLAPS = ("ids", "pooled", "gradients")  # the switches of the configuration


def variants(config: Config) -> dict[str, Config]:
    """Return our variants by name: the trainer as it is, and with each optimization switched off."""

    def off(*overlaps: str) -> dict[str, Any]:
        return {"overlap": dict.fromkeys(overlaps, False)}

    table_wise = apply_changes(config, [{"sharding": {"kind": "table_wise"}}])
    configs = {
        OURS: config,
        f"{OURS}, all table_wise": table_wise,
        **{f"overlap.{name}=false": apply_changes(config, [off(name)]) for name in _OVERLAPS},
        "all three off, no prefetching": apply_changes(config, [off(*_OVERLAPS), {"loader": {"depth": 0}}]),
    }
    if importlib.util.find_spec("fbgemm_gpu") is not None:
        configs[f"{OURS}, tables by FBGEMM"] = apply_changes(config, [{"embedding": {"kernel": "fbgemm"}}])
    return configs


def main(folder: str, shape_json: str, rounds: str) -> None:
    """Measure all variants and write the results to FOLDER/<rank>.json."""
    torch.set_num_threads(1)
    world = world_from(os.environ)
    join(world)
    shape = Shape(**json.loads(shape_json))
    source = RepeatingSource(shape)
    work = work_of(shape, world.size, source.distinct_rows())
    trainers, steps = {}, {PRODUCTS: products(shape, world.size), COPY: copies(work.traffic)}
    steps[PLAIN] = PlainTrainer(shape, _batches(shape, source, world, depth=0)).step
    for name, config in variants(shape.config()).items():
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
            step_seconds, cpu_seconds = _block(steps[name])
            if number:  # the first round warms up
                seconds[name] += step_seconds
                processor[name].append(cpu_seconds)
    result = {
        "seconds": seconds,
        "processor": processor,
        "work": {"operations": work.operations, "traffic": work.traffic},
        "plan": [placement.kind for placement in trainers[OURS].plan.tables],
    }
    (Path(folder) / f"{world.rank}.json").write_text(json.dumps(result))
    dist.destroy_process_group()


def _batches(shape: Shape, source: RepeatingSource, world: World, depth: int) -> Iterator[Loaded]:
    return Loader(source, Extent.of_steps(None, shape.global_batch), world.rank, world.size, depth)


def _step(trainer: Trainer, batches: Iterator[Loaded]) -> Callable[[], object]:
    return lambda: trainer.step(batches)


def _block(step: Callable[[], object]) -> tuple[list[float], float]:
    """Return the seconds of each step except the first ones, and the CPU time per step of all threads."""
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
