"""A rank that trains one model in several variants in turns, a block of steps each, and measures each step.

torchrun starts it as `-m bench.trainer_job FOLDER SHAPE ROUNDS`; SHAPE is a bench.dlrm.Shape as JSON. Besides the
variants of the bundled trainer, it measures the two parts of the floor and plain torch. All batches are generated
before the first step. zmon is not attached; bench.overhead measures the cost of monitoring.
"""

from __future__ import annotations

import gc
import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from bench.dlrm import RepeatingSource, Shape
from bench.floor import copies, products, work_of
from bench.plain_dlrm import PlainTrainer
from trainer import loop
from trainer.batch import StepBatch
from trainer.keys import apply_changes
from trainer.loader import Extent, Loader
from trainer.registry import WEIGHT_TYPES
from trainer.scale.config import RunConfig
from trainer.scale.planning import plan
from trainer.train import Trainer
from trainer.world import World, join, world_from

# In each block the warm-up steps do not count, because the caches still hold the data of another variant.
BLOCK_STEPS, WARM_UP_STEPS = 10, 3
PRODUCTS, COPY, PLAIN = "matrix products", "a copy of all bytes", "plain torch"
OURS = "ours"
_OVERLAPS = ("ids", "pooled", "gradients")  # the switches of the configuration


def variants(config: RunConfig) -> dict[str, RunConfig]:
    """Return the configurations of the bundled trainer by name.

    - the trainer as it is
    - all tables table-wise, with weights in float32 and in half precision
    - matrix products in bfloat16
    - each overlap switched off; all three overlaps and the loader's read-ahead switched off
    - if it is installed, FBGEMM's kernel, with products of both precisions
    """

    def off(*overlaps: str) -> dict[str, Any]:
        return {"overlap": dict.fromkeys(overlaps, False)}

    bfloat16 = {"train": {"cpu_autocast": True}}
    table_wise = apply_changes(config, [{"sharding": {"kind": "table_wise"}}])
    configs = {
        OURS: config,
        f"{OURS}, all table_wise": table_wise,
        **{
            f"{OURS}, all table_wise, {dtype}": apply_changes(table_wise, [{"embedding": {"dtype": dtype}}])
            for dtype in WEIGHT_TYPES
        },
        f"{OURS}, products in bfloat16": apply_changes(config, [bfloat16]),
        **{f"overlap.{name}=false": apply_changes(config, [off(name)]) for name in _OVERLAPS},
        "all three off, no prefetching": apply_changes(config, [off(*_OVERLAPS), {"loader": {"depth": 0}}]),
    }
    if importlib.util.find_spec("fbgemm_gpu") is not None:
        fbgemm = {"embedding": {"kernel": "fbgemm"}}
        configs[f"{OURS}, tables by FBGEMM"] = apply_changes(config, [fbgemm])
        configs[f"{OURS}, tables by FBGEMM, products in bfloat16"] = apply_changes(config, [fbgemm, bfloat16])
    return configs


def main(folder: str, shape_json: str, rounds: str) -> None:
    """Measure everything in turns and write the results to FOLDER/<rank>.json."""
    shape, world, source = join_ranks(shape_json)
    work = work_of(shape, world.size, source.distinct_rows())
    trainers: dict[str, Trainer] = {}
    steps: dict[str, Callable[[], object]] = {
        PRODUCTS: products(shape, world.size),
        COPY: copies(work.traffic_bytes),
        PLAIN: PlainTrainer(shape, batches_of(shape, source, world, depth=0)).step,
    }
    for name, config in variants(shape.config()).items():
        trainers[name] = Trainer(config, world, plan(config, world).tables)
        batches = batches_of(shape, source, world, config.loader.depth)
        steps[name] = partial(next, loop.steps(trainers[name], batches))
    seconds, cpu_seconds = in_turns(steps, int(rounds))
    result = {
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "work": {"operations": work.operations, "traffic": work.traffic_bytes},
        "plan": [placement.kind for placement in trainers[OURS].placements],
    }
    (Path(folder) / f"{world.rank}.json").write_text(json.dumps(result))
    dist.destroy_process_group()


def join_ranks(shape_json: str) -> tuple[Shape, World, RepeatingSource]:
    """Join the process group with one thread. Return shape, world and source, with this rank's samples generated."""
    torch.set_num_threads(1)
    world = world_from(os.environ)
    shape = Shape(**json.loads(shape_json))
    join(world)
    source = RepeatingSource(shape)
    source.generate(world.rank, world.size)
    return shape, world, source


def in_turns(
    steps: dict[str, Callable[[], object]], rounds: int
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Run a block of each in turns, forward and backward. Return seconds and CPU seconds of steps, by name."""
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    cpu_seconds: dict[str, list[float]] = {name: [] for name in steps}
    gc.collect()
    gc.freeze()
    for number in range(rounds + 1):
        for name in reversed(steps) if number % 2 else steps:
            step_seconds, mean_cpu_seconds = _block(steps[name])
            if number:  # the first round warms up
                seconds[name] += step_seconds
                cpu_seconds[name].append(mean_cpu_seconds)
    return seconds, cpu_seconds


def batches_of(shape: Shape, source: RepeatingSource, world: World, depth: int) -> Iterator[StepBatch]:
    """Return the batches of this rank, without end."""
    return Loader(source, Extent.of_steps(None, shape.global_batch), world.rank, world.size, depth)


def _block(step: Callable[[], object]) -> tuple[list[float], float]:
    """Run a block. Return the seconds of each step after warm-up, and the mean CPU seconds of all threads in a step."""
    dist.barrier()
    for _ in range(WARM_UP_STEPS):
        step()
    num_steps = BLOCK_STEPS - WARM_UP_STEPS
    cpu_before = time.process_time()
    ends = [time.perf_counter()]
    for _ in range(num_steps):
        step()
        ends.append(time.perf_counter())
    return [end - begin for begin, end in pairwise(ends)], (time.process_time() - cpu_before) / num_steps


if __name__ == "__main__":
    main(*sys.argv[1:])
