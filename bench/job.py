"""A rank that trains one job, in which zmon is removed and installed again between two steps, and measures its steps.

torchrun starts it as `-m bench.job OUT KIND SECONDS STEP_SECONDS computes|sleeps|device MODE…`. KIND is a module of
bench.jobs. It runs for about SECONDS, in steps of STEP_SECONDS, or longer on a slow machine. Computation or a sleep
fills the step. After a sleep the caches are cold. Then all code is several times slower, with or without zmon,
especially on a shared machine. With `device` the job trains on the first GPU with NCCL, and a kernel fills the step.
Except in the bundled trainer, a step never calls zmon, which infers steps and phases, as under `zmon run`. Each rank
writes its measurements to OUT/<rank>.json.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import cycle
from pathlib import Path

import psutil
import torch
import torch.distributed as dist

from bench.device import Cpu, Device, Gpu
from bench.jobs.training import Training
from bench.switch import WATCHED, Switch, attach

BLOCK = 20  # steps between two switches; the first step is discarded
BLOCK_OF_ONE_RANK = 5  # the same in a job of one rank
WARM_UP = 100
ON_DEVICE = "device"


@dataclass(frozen=True)
class Block:
    """The seconds per step of a block: wall-clock, CPU time of the main thread, and overhead that zmon reports."""

    mode: str
    wall: float
    processor: float
    reported: float


def filler(mode: str, device: Device) -> Callable[[float], object]:
    """Return a function that computes, sleeps or keeps the device busy for the given seconds."""
    if mode == "sleeps":
        return time.sleep
    if mode == ON_DEVICE:
        return device.busy
    numbers = torch.ones(250_000)  # a megabyte, which evicts the contents of the nearer caches
    begin = time.perf_counter()
    for _ in range(WARM_UP):
        numbers.mul_(1.0)
    call_seconds = (time.perf_counter() - begin) / WARM_UP
    return lambda seconds: [numbers.mul_(1.0) for _ in range(round(seconds / call_seconds))]


def measure(step: Callable[[], None], switch: Switch | None, mode: str, num_steps: int) -> Block:
    """Run and measure one block in one mode."""
    if switch is not None:
        switch.to(mode)
    step()
    reported = switch.reported() if switch else 0.0
    begin = time.perf_counter()
    processor = time.thread_time()
    for _ in range(num_steps - 1):
        step()
    measured = num_steps - 1
    return Block(
        mode,
        (time.perf_counter() - begin) / measured,
        (time.thread_time() - processor) / measured,
        ((switch.reported() if switch else 0.0) - reported) / measured,
    )


def warmed_up(training: Training, step_seconds: float, device: Device) -> tuple[float, float]:
    """Run steps until torch and zmon have settled. Return the pause that fills a step, and the seconds of a step."""
    for _ in range(WARM_UP):
        training.step(0.0)
    pause = max(0.0, step_seconds - _slowest(lambda: training.step(0.0), device))
    return pause, _slowest(lambda: training.step(pause), device)


def _slowest(step: Callable[[], None], device: Device) -> float:
    """Return the mean seconds of a step on the slowest rank."""
    begin = time.perf_counter()
    for _ in range(WARM_UP):
        step()
    seconds = torch.tensor((time.perf_counter() - begin) / WARM_UP, device=device.place)
    dist.all_reduce(seconds, dist.ReduceOp.MAX)
    return float(seconds)


def main(out: str, kind: str, seconds: str, step_seconds: str, fill_mode: str, *modes: str) -> None:
    """Run blocks of the modes in turn, forward and backward."""
    job = importlib.import_module(f"bench.jobs.{kind}")
    import_seconds, attach_seconds = attach() if modes == (WATCHED,) else (0.0, 0.0)
    switch = Switch() if len(modes) > 1 else None  # it keeps lists of names, which would count as memory of zmon
    torch.set_num_threads(1)
    device: Device = Gpu(0) if fill_mode == ON_DEVICE else Cpu()
    dist.init_process_group("nccl" if fill_mode == ON_DEVICE else "gloo")
    training: Training = job.make(filler(fill_mode, device), device.place)
    if switch is not None:
        switch.to(WATCHED)
    pause, duration = warmed_up(training, float(step_seconds), device)
    if switch is not None:
        switch.settle(training.model)
    gc.collect()
    gc.freeze()  # The garbage collection of torch's own objects must not count as cost of a step.
    num_steps = BLOCK if dist.get_world_size() > 1 else BLOCK_OF_ONE_RANK
    num_blocks = max(2 * len(modes), int(float(seconds) / (num_steps * duration)))
    mode_cycle = cycle((*modes, *reversed(modes)))
    blocks = [
        measure(lambda: training.step(pause), switch, next(mode_cycle), num_steps)
        for _ in range(num_blocks)
    ]  # fmt: skip
    memory = psutil.Process().memory_full_info()
    result = {
        "blocks": [asdict(block) for block in blocks],
        "memory": {"rss": memory.rss, "pss": memory.pss, "private": memory.uss},
        "import_seconds": import_seconds,
        "attach_seconds": attach_seconds,
    }
    (Path(out) / f"{os.environ['RANK']}.json").write_text(json.dumps(result))
    if switch is not None:
        switch.to(WATCHED)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
