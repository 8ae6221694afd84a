"""Trains a small model with DDP or FSDP2 as a user would, then asks the rank's worker server for the flight record."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from enum import Enum

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from bench.device import Device
from bench.gpu_check.jobs.joining import join, write_record
from bench.gpu_check.records import TrainedRank
from zmon import probe
from zmon.agent import evidence
from zmon.agent.worker_socket import worker_socket

# A model that any GPU holds, and whose step takes milliseconds; with several layers, FSDP2 has several units.
_WIDTH = 256
_LAYERS = 4
_SAMPLES = 64  # of each rank and step
_RETIRED_SECONDS = 10.0  # NCCL's watchdog marks collectives as completed some time after the device has done them
_ASK_SECONDS = 0.2  # between two requests: few are needed before the watchdog has marked all collectives


class Parallelism(Enum):
    """The way in which the model is distributed."""

    DDP = "ddp"
    FSDP2 = "fsdp2"


def make_train_step(device: Device, parallelism: Parallelism) -> Callable[[], None]:
    """Create the model; return a function that does one update."""
    layers = [nn.Sequential(nn.Linear(_WIDTH, _WIDTH), nn.ReLU()) for _ in range(_LAYERS)]
    model = nn.Sequential(*layers, nn.Linear(_WIDTH, 1)).to(device.place)
    if parallelism is Parallelism.FSDP2:
        mesh = init_device_mesh(device.place.type, (dist.get_world_size(),))
        for layer in layers:
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
    else:
        model = DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    batch = torch.randn(_SAMPLES, _WIDTH, device=device.place)

    def step() -> None:
        optimizer.zero_grad()
        loss = model(batch).square().mean()
        loss.backward()
        dist.all_reduce(loss.detach())  # with one rank, torch leaves out all collectives of FSDP2
        optimizer.step()

    return step


def main(folder: str, key: str, parallelism: str, steps: str) -> None:
    """Train, and write whether the probe used device events, and the last collectives of the flight recorder."""
    device = join(key)
    step = make_train_step(device, Parallelism(parallelism))
    for _ in range(int(steps)):
        step()
    device.finish()
    record = _trained_rank()  # while the process group exists, as the agent does
    dist.destroy_process_group()
    write_record(folder, record)


def _trained_rank() -> TrainedRank:
    """Ask the worker server as the agent does, until no collective is pending or the time is over."""
    assert probe.current is not None
    has_events = probe.current.device is not None
    box = probe.current.box.path
    socket = worker_socket(box, os.getuid(), str(box.with_suffix(".sock")))
    deadline = time.monotonic() + _RETIRED_SECONDS
    while True:
        answer = asyncio.run(evidence.gather(None, socket, stacks=False))
        record = answer.flight
        if record is None:
            return TrainedRank(has_events, flight_error=answer.flight_error or "")
        if not record.num_pending or time.monotonic() > deadline:
            return TrainedRank(has_events, record.last, record.num_pending)
        time.sleep(_ASK_SECONDS)
