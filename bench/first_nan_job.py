"""A rank that trains one model again and again, every time with a NaN in one sample of one rank.

torchrun starts it as `-m bench.first_nan_job FOLDER KIND INJECTIONS SEED`; KIND is a key of `JOBS`. After an injection,
rank 0 writes FOLDER/done and waits until FOLDER/read has the same number. Its steps are its own count, not zmon's.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import zmon
from trainer.batch import Batch
from trainer.config import TrainConfig
from trainer.loader import Source
from trainer.scale.config import RunConfig
from trainer.scale.run import Run, open_source
from trainer.tables import EmbeddingConfig
from trainer.world import World, join, world_from

_FIRST_BAD_STEP, _LAST_BAD_STEP = 3, 39  # the bad step of a round is drawn from this range
_STEPS_AFTER = 14  # the bad step and those after it
_WIDTH, _SAMPLES = 32, 8


class Injected(msgspec.Struct, frozen=True):
    """A NaN in a batch of a rank."""

    number: int  # of the round, from 1 on
    rank: int
    step: int  # counted over all rounds


@dataclass
class Job:
    """The part that all kinds of jobs share."""

    world: World
    draw: random.Random  # has the same numbers on all ranks
    pace: random.Random  # has other numbers on each rank
    steps: int = 0  # finished in this process

    def pause(self) -> None:
        """Lengthen the step by a time that differs between ranks."""
        time.sleep(self.pace.uniform(0.001, 0.006))

    def spoil(self, numbers: torch.Tensor, is_bad: bool) -> torch.Tensor:
        """Replace one number of a bad batch. `draw` is used for every batch, so that it stays equal on all ranks."""
        place = self.draw.randrange(numbers.numel())
        value = self.draw.choice((float("nan"), float("inf")))
        if is_bad:
            numbers.view(-1)[place] = value
        return numbers


Play = Callable[[int, int], None]  # trains; gets the bad step, from 1 on in this round, and its rank


def layers(job: Job, model: nn.Module, set_sync: Callable[[bool], object], reports: bool) -> Play:
    """Return a function that trains a model of a few layers, in half of the rounds with two batches in each step.

    `set_sync` says whether the next backward pass all-reduces the gradients: only that of the last batch does.
    """
    initial = [parameter.detach().clone() for parameter in model.parameters()]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def play(bad_step: int, bad_rank: int) -> None:
        with torch.no_grad():
            for parameter, value in zip(model.parameters(), initial, strict=True):
                parameter.copy_(value)
        optimizer.state.clear()
        num_batches = job.draw.choice((1, 2))
        for step in range(1, bad_step + _STEPS_AFTER):
            bad_batch = job.draw.randrange(num_batches)
            for number in range(num_batches):
                is_bad = (step, job.world.rank, number) == (bad_step, bad_rank, bad_batch)
                set_sync(number + 1 == num_batches)
                loss = model(job.spoil(torch.randn(_SAMPLES, _WIDTH), is_bad)).square().mean()
                loss.backward()
            job.pause()
            optimizer.step()
            optimizer.zero_grad()
            job.steps += 1
            if reports and job.world.rank == 0:  # in many jobs, only rank 0 reports
                zmon.report(loss=loss.item())

    return play


def small_model() -> nn.Sequential:
    """Return a model without BatchNorm: a NaN in its running statistics would stay in all later rounds."""
    return nn.Sequential(nn.Linear(_WIDTH, _WIDTH), nn.GELU(), nn.Linear(_WIDTH, 1))


def ddp(job: Job) -> Play:
    """Return a function that trains with DistributedDataParallel. Rank 0 reports its losses."""
    model = DistributedDataParallel(small_model())

    def set_sync(is_on: bool) -> None:
        model.require_backward_grad_sync = is_on  # as its context `no_sync` does

    return layers(job, model, set_sync, reports=True)


def fsdp2(job: Job) -> Play:
    """Return a function that trains with FSDP2. No rank reports a loss."""
    model = small_model()
    for layer in (model[0], model[2], model):
        fully_shard(layer)
    return layers(job, model, lambda is_on: None, reports=False)  # it reduces the gradients of every batch


@dataclass(frozen=True)
class SpoiledSource:
    """The samples of the bundled trainer, of which one dense feature is spoiled on one rank in one step."""

    source: Source
    job: Job
    bad_step: int
    bad_rank: int

    def __getattr__(self, name: str) -> Any:
        return getattr(self.source, name)

    def batch(self, step: int, start: int, size: int) -> Batch:
        """Return the batch of the step, which counts from 0."""
        self.job.pause()
        batch = self.source.batch(step, start, size)
        is_bad = (step + 1, self.job.world.rank) == (self.bad_step, self.bad_rank)
        return replace(batch, dense=self.job.spoil(batch.dense.clone(), is_bad))


def bundled(job: Job) -> Play:
    """Return a function that trains with the bundled trainer. A round is a run of its own."""

    def play(bad_step: int, bad_rank: int) -> None:
        steps = bad_step + _STEPS_AFTER - 1
        train = TrainConfig(steps=steps, global_batch=64, stop_at_nan=False, progress_every=1_000_000)
        config = RunConfig(EmbeddingConfig(rows=(100,) * 8, dim=8, kernel="torch"), train)
        Run(config, job.world, SpoiledSource(open_source(config, job.world), job, bad_step, bad_rank)).train()
        job.steps += steps

    return play


JOBS: dict[str, Callable[[Job], Play]] = {"DDP": ddp, "FSDP2": fsdp2, "trainer": bundled}


def main(folder: str, kind: str, injections: str, seed: str) -> None:
    """Play all rounds."""
    torch.set_num_threads(1)
    zmon.attach()
    world = world_from(os.environ)
    join(world)
    torch.manual_seed(world.rank)
    job = Job(world, random.Random(seed), random.Random(f"{seed} {world.rank}"))
    play = JOBS[kind](job)
    for number in range(1, int(injections) + 1):
        steps_before = job.steps
        bad_step = job.draw.randint(_FIRST_BAD_STEP, _LAST_BAD_STEP)
        bad_rank = job.draw.randrange(world.size)
        play(bad_step, bad_rank)
        if world.rank == 0:
            hand_over(Path(folder), Injected(number, bad_rank, steps_before + bad_step))
        dist.barrier()
    dist.destroy_process_group()


def hand_over(folder: Path, injected: Injected) -> None:
    """Tell the reader of the boxes what was injected, and wait until it has read them."""
    (folder / "new").write_bytes(msgspec.json.encode(injected))
    (folder / "new").rename(folder / "done")
    while (
        not (folder / "read").exists() or int((folder / "read").read_text() or 0) < injected.number
    ):  # or 0: it may be empty
        time.sleep(0.02)


if __name__ == "__main__":
    main(*sys.argv[1:])
