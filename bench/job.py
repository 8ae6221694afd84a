"""A rank that removes zmon and installs it again between its steps, and measures the steps in each mode.

torchrun starts it as `-m bench.job OUT KIND SECONDS STEP_SECONDS computes|sleeps|device MODE…`. KIND is a module of
bench.jobs, MODE a mode of bench.switch. The job runs for about SECONDS, in steps of STEP_SECONDS, or longer on a slow
machine. Computation or a sleep fills the step. After a sleep the caches are cold, so that all code is several times
slower, with or without zmon. With `device` the job trains on the first GPU with NCCL, and a kernel fills the step.
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
from bench.jobs.training import Fill, Training
from bench.switch import WATCHED, Switch, attach

_BLOCK_STEPS = 20  # between two switches; the first step is discarded
_BLOCK_STEPS_OF_ONE_RANK = 5  # in a job of one rank, which waits for no other
_WARM_UP_STEPS = 100
_ON_DEVICE = "device"
_NUMBERS = 250_000  # of the computation: a megabyte, which evicts the contents of the nearer caches
_TIMED_CALLS = 100


@dataclass(frozen=True)
class Block:
    """A block of steps. Times are the mean seconds of a step."""

    mode: str
    wall: float
    processor: float  # CPU time of the main thread
    reported: float  # overhead that zmon reports


def filler(fill_mode: str, device: Device) -> Fill:
    """Return a function that computes, sleeps or keeps the device busy for the given seconds."""
    if fill_mode == "sleeps":
        return time.sleep
    if fill_mode == _ON_DEVICE:
        return device.busy
    numbers = torch.ones(_NUMBERS)
    begin = time.perf_counter()
    for _ in range(_TIMED_CALLS):
        numbers.mul_(1.0)
    call_seconds = (time.perf_counter() - begin) / _TIMED_CALLS
    return lambda seconds: [numbers.mul_(1.0) for _ in range(round(seconds / call_seconds))]


def measure(step: Callable[[], None], switch: Switch | None, mode: str, num_steps: int) -> Block:
    """Run and measure one block in one mode."""

    def clocks() -> tuple[float, float, float]:
        return time.perf_counter(), time.thread_time(), switch.reported() if switch else 0.0

    if switch is not None:
        switch.to(mode)
    step()
    before = clocks()
    for _ in range(num_steps - 1):
        step()
    return Block(mode, *((end - begin) / (num_steps - 1) for begin, end in zip(before, clocks(), strict=True)))


def warmed_up(training: Training, step_seconds: float, device: Device) -> tuple[float, float]:
    """Run steps until torch and zmon have settled. Return the pause that fills a step, and the seconds of a step."""
    for _ in range(_WARM_UP_STEPS):
        training.step(0.0)
    pause = max(0.0, step_seconds - _slowest(lambda: training.step(0.0), device))
    return pause, _slowest(lambda: training.step(pause), device)


def _slowest(step: Callable[[], None], device: Device) -> float:
    """Return the mean seconds of a step on the slowest rank."""
    begin = time.perf_counter()
    for _ in range(_WARM_UP_STEPS):
        step()
    seconds = torch.tensor((time.perf_counter() - begin) / _WARM_UP_STEPS, device=device.place)
    dist.all_reduce(seconds, dist.ReduceOp.MAX)
    return float(seconds)


def main(out: str, kind: str, seconds: str, step_seconds: str, fill_mode: str, *modes: str) -> None:
    """Run blocks of the modes in turn, forward and backward."""
    job = importlib.import_module(f"bench.jobs.{kind}")
    import_seconds, attach_seconds = attach() if modes == (WATCHED,) else (0.0, 0.0)
    switch = Switch() if len(modes) > 1 else None  # its lists of names would count as memory of zmon
    torch.set_num_threads(1)
    device: Device = Gpu(0) if fill_mode == _ON_DEVICE else Cpu()
    dist.init_process_group("nccl" if fill_mode == _ON_DEVICE else "gloo")
    training: Training = job.make(filler(fill_mode, device), device.place)
    if switch is not None:
        switch.to(WATCHED)
    pause, duration = warmed_up(training, float(step_seconds), device)
    if switch is not None:
        switch.settle(training.model)
    gc.collect()
    gc.freeze()  # The garbage collection of torch's own objects must not count as cost of a step.
    num_steps = _BLOCK_STEPS if dist.get_world_size() > 1 else _BLOCK_STEPS_OF_ONE_RANK
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
