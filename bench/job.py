"""A two-rank training loop like a user's, in which zmon can be taken out and put back between two steps.

A step is forward, backward and update of a DDP model, four collectives (two all_to_all, an all_reduce, an asynchronous
all_reduce that is waited for) and as much computing as makes it last so long. Or as much sleep: after a sleep the
caches are cold and whatever runs then costs a multiple, on a shared machine most of all, with zmon or without. The loop
never calls zmon: steps and phases are inferred, as they are under `zmon run`.

Started by torchrun: `-m bench.job OUT STEPS SECONDS computes|sleeps MODE…`; each rank writes what it measured into
OUT/<rank>.json.
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

BLOCK = 20  # steps between two switches; the first of them is discarded
WARM_UP = 100

# Modes. watched; absent: torch is as it was before zmon was loaded; idle: the hooks are in place, as under `zmon run`,
# and the process is no rank; never: zmon is not even imported.
_CLASSES = (dist.Work, dist.ProcessGroup, dist.Reducer, DistributedDataParallel, torch._C.Future)
_HOOKS = (optimizers._global_optimizer_pre_hooks, optimizers._global_optimizer_post_hooks)


@dataclass(frozen=True)
class Block:
    """Seconds per step in a block: on the clock, on the processor by the rank's own thread, and what zmon says."""

    mode: str
    wall: float
    processor: float
    told: float


class Switch:
    """Everything that attaching puts into torch, to be taken out and put back."""

    def __init__(self) -> None:
        before = _names()
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
        self._changed = [(*at, before[at], new) for at, new in after.items() if at in before and before[at] is not new]
        self._hooks = [hooks.copy() for hooks in _HOOKS]

    def to(self, mode: str) -> None:
        """From the next step on."""
        for owner, name, plain, watching in self._changed:
            setattr(owner, name, plain if mode == "absent" else watching)
        for hooks, installed in zip(_HOOKS, self._hooks, strict=True):
            hooks.clear()
            hooks.update({} if mode == "absent" else installed)
        self._probe.current = self._timeline if mode == "watched" else None
        if mode == "watched":
            self._timeline.turn_to(self._timeline.activity)  # the time without zmon belongs to no step

    def told(self) -> float:
        """Seconds that zmon says it has taken so far."""
        return self._timeline.ledger.overhead_ns * 1e-9


def _names() -> dict[tuple[Any, str], object]:
    owners = (*(module for module in sys.modules.values() if hasattr(module, "__dict__")), *_CLASSES)
    return {(owner, name): value for owner in owners for name, value in list(vars(owner).items())}


def filler(how: str) -> Callable[[float], object]:
    """What takes so many seconds."""
    if how == "sleeps":
        return time.sleep
    numbers = torch.ones(250_000)  # a megabyte: what the rank had in its nearer caches goes
    begin = time.perf_counter()
    for _ in range(WARM_UP):
        numbers.mul_(1.0)
    each = (time.perf_counter() - begin) / WARM_UP
    return lambda seconds: [numbers.mul_(1.0) for _ in range(round(seconds / each))]


def training_step(fill: Callable[[float], object]) -> Callable[[float], None]:
    """Makes the model; returns what runs one step, filled up to its length."""
    model = DistributedDataParallel(nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    batch, rows, mean, counter = torch.ones(16, 32), torch.ones(256), torch.ones(1), torch.ones(8)

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
    """One block in one mode."""
    if switch is not None:
        switch.to(mode)
    step()
    told = switch.told() if switch else 0.0
    begin, processor = time.perf_counter(), time.thread_time()
    for _ in range(BLOCK - 1):
        step()
    steps = BLOCK - 1
    return Block(
        mode,
        (time.perf_counter() - begin) / steps,
        (time.thread_time() - processor) / steps,
        ((switch.told() if switch else 0.0) - told) / steps,
    )


def main(out: str, steps: str, seconds: str, how: str, *modes: str) -> None:
    """Run blocks of the modes in turn, forth and back, of steps that last so many seconds, or as long as they must."""
    switch = None if modes == ("never",) else Switch()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    step = training_step(filler(how))
    if switch is not None:
        switch.to("watched")
    for _ in range(WARM_UP):
        step(0.0)
    begin = time.perf_counter()
    for _ in range(WARM_UP):
        step(0.0)
    taken = torch.tensor((time.perf_counter() - begin) / WARM_UP)
    dist.all_reduce(taken, dist.ReduceOp.MAX)
    pause = max(0.0, float(seconds) - taken.item())  # as long on all ranks
    gc.collect()
    gc.freeze()  # a collection of all that torch has imported is no cost of a step
    there_and_back = cycle((*modes, *reversed(modes)))
    blocks = [measure(lambda: step(pause), switch, next(there_and_back)) for _ in range(int(steps) // BLOCK)]
    memory = psutil.Process().memory_full_info()
    told = {
        "blocks": [asdict(block) for block in blocks],
        "memory": {"rss": memory.rss, "pss": memory.pss, "private": memory.uss},
        "import_seconds": switch.import_seconds if switch else 0.0,
        "attach_seconds": switch.attach_seconds if switch else 0.0,
    }
    (Path(out) / f"{os.environ['RANK']}.json").write_text(json.dumps(told))
    if switch is not None:
        switch.to("watched")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
