"""A two-rank training loop like a user's, in which zmon can be removed and installed again between two steps.

A step is forward, backward and update of a DDP model, four more collectives (two all_to_all, an all_reduce, an
asynchronous all_reduce that is waited for), and computation or a sleep up to the given duration. After a sleep the
caches are cold. Then all code is several times slower, with or without zmon, especially on a shared machine. A step
never calls zmon. zmon infers steps and phases, as under `zmon run`.

torchrun starts it as `-m bench.job OUT STEPS SECONDS computes|sleeps|device MODE…`. With `device` the job trains on the
first GPU with NCCL, and a kernel fills the step. Each rank writes its measurements to OUT/<rank>.json.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import psutil
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import optimizer as optimizers

from bench.device import Cpu, Device, Gpu

BLOCK = 20  # steps between two switches; the first step is discarded
WARM_UP = 100
ON_DEVICE = "device"

# Modes. watched: zmon records the rank. absent: torch is in its state before zmon was loaded. idle: the hooks are
# installed, as under `zmon run`, but the process is not a rank. never: zmon is not even imported.
_CLASSES = (dist.Work, dist.ProcessGroup, dist.Reducer, DistributedDataParallel, torch._C.Future)
_HOOKS = (optimizers._global_optimizer_pre_hooks, optimizers._global_optimizer_post_hooks)


@dataclass(frozen=True)
class Block:
    """The seconds per step of a block: wall-clock, CPU time of the main thread, and overhead that zmon reports."""

    mode: str
    wall: float
    processor: float
    reported: float


class Switch:
    """All changes that zmon makes to torch, to be removed and installed again."""

    def __init__(self) -> None:
        names_before = _names()
        begin = time.perf_counter()
        import zmon
        from zmon import probe

        self.import_seconds = time.perf_counter() - begin
        if not zmon.attach():
            raise SystemExit("zmon did not attach")
        self.attach_seconds = time.perf_counter() - begin - self.import_seconds
        timeline = probe.current
        assert timeline is not None
        self._probe, self._timeline = probe, timeline
        after = _names()
        self._changed = [
            (*key, names_before[key], new)
            for key, new in after.items()
            if key in names_before and names_before[key] is not new
        ]
        self._hooks = [hooks.copy() for hooks in _HOOKS]

    def to(self, mode: str) -> None:
        """Switch to a mode from the next step on."""
        for owner, name, plain, watching in self._changed:
            setattr(owner, name, plain if mode == "absent" else watching)
        for hooks, installed in zip(_HOOKS, self._hooks, strict=True):
            hooks.clear()
            hooks.update({} if mode == "absent" else installed)
        self._probe.current = self._timeline if mode == "watched" else None
        if mode == "watched":
            self._timeline.turn_to(self._timeline.activity)  # the time without zmon belongs to no step

    def reported(self) -> float:
        """Return the overhead in seconds that zmon reports so far."""
        return self._timeline.ledger.overhead_ns * 1e-9


def _names() -> dict[tuple[Any, str], object]:
    owners = (*(module for module in sys.modules.values() if hasattr(module, "__dict__")), *_CLASSES)
    return {(owner, name): value for owner in owners for name, value in list(vars(owner).items())}


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


def training_step(fill: Callable[[float], object], place: torch.device) -> Callable[[float], None]:
    """Create the model. Return a function that runs one step and adds a pause of the given seconds."""
    model = DistributedDataParallel(nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 1)).to(place))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    batch, rows, mean, counter = (torch.ones(shape, device=place) for shape in ((16, 32), (256,), (1,), (8,)))

    def step(pause: float) -> None:
        work = dist.all_reduce(counter, async_op=True)
        dist.all_to_all_single(torch.empty_like(rows), rows)
        loss = model(batch).square().mean()
        work.wait()
        optimizer.zero_grad()
        loss.backward()
        dist.all_to_all_single(torch.empty_like(rows), rows)
        optimizer.step()
        dist.all_reduce(mean.fill_(loss.item()))
        counter.fill_(1)
        fill(pause)

    return step


def measure(step: Callable[[], None], switch: Switch | None, mode: str) -> Block:
    """Run and measure one block in one mode."""
    if switch is not None:
        switch.to(mode)
    step()
    reported = switch.reported() if switch else 0.0
    begin, processor = time.perf_counter(), time.thread_time()
    for _ in range(BLOCK - 1):
        step()
    steps = BLOCK - 1
    return Block(
        mode,
        (time.perf_counter() - begin) / steps,
        (time.thread_time() - processor) / steps,
        ((switch.reported() if switch else 0.0) - reported) / steps,
    )


def main(out: str, steps: str, seconds: str, fill_mode: str, *modes: str) -> None:
    """Run blocks of the modes in turn, forward and backward. A step lasts `seconds`, or longer on a slow machine."""
    switch = None if modes == ("never",) else Switch()
    torch.set_num_threads(1)
    device: Device = Gpu(0) if fill_mode == ON_DEVICE else Cpu()
    dist.init_process_group("nccl" if fill_mode == ON_DEVICE else "gloo")
    step = training_step(filler(fill_mode, device), device.place)
    if switch is not None:
        switch.to("watched")
    for _ in range(WARM_UP):
        step(0.0)
    begin = time.perf_counter()
    for _ in range(WARM_UP):
        step(0.0)
    duration = torch.tensor((time.perf_counter() - begin) / WARM_UP, device=device.place)
    dist.all_reduce(duration, dist.ReduceOp.MAX)
    pause = max(0.0, float(seconds) - duration.item())  # equal on all ranks
    gc.collect()
    gc.freeze()  # The garbage collection of torch's own objects must not count as cost of a step.
    mode_cycle = cycle((*modes, *reversed(modes)))
    blocks = [measure(lambda: step(pause), switch, next(mode_cycle)) for _ in range(int(steps) // BLOCK)]
    memory = psutil.Process().memory_full_info()
    result = {
        "blocks": [asdict(block) for block in blocks],
        "memory": {"rss": memory.rss, "pss": memory.pss, "private": memory.uss},
        "import_seconds": switch.import_seconds if switch else 0.0,
        "attach_seconds": switch.attach_seconds if switch else 0.0,
    }
    (Path(out) / f"{os.environ['RANK']}.json").write_text(json.dumps(result))
    if switch is not None:
        switch.to("watched")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
