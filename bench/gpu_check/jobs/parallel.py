"""Trains a small model with DDP or FSDP2 as a user would, then asks the rank's worker server for the flight record."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from bench.device import Device
from bench.gpu_check.jobs.joining import join, rank
from bench.gpu_check.records import TrainedRank, write
from zmon import probe
from zmon.agent import evidence
from zmon.agent.worker_socket import worker_socket
from zmon.schema.flight import FlightRecord

_WIDTH, _LAYERS, _SAMPLES = 256, 4, 64
_RETIRED_SECONDS = 10.0  # NCCL's watchdog marks collectives as completed some time after the device has done them


def train_step(device: Device, kind: str) -> Callable[[], None]:
    """Create the model; return a function that does one update."""
    layers = [nn.Sequential(nn.Linear(_WIDTH, _WIDTH), nn.ReLU()) for _ in range(_LAYERS)]
    model = nn.Sequential(*layers, nn.Linear(_WIDTH, 1)).to(device.place)
    if kind == "fsdp2":
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
        dist.all_reduce(loss.detach())  # FSDP2 with one rank has no collective of its own: torch leaves them out
        optimizer.step()

    return step


def main(folder: str, key: str, kind: str, steps: str) -> None:
    """Train, and write what the probe measured with and what the flight recorder has."""
    device = join(key)
    step = train_step(device, kind)
    for _ in range(int(steps)):
        step()
    device.finish()
    record, error = _flight_record()
    assert probe.current is not None
    has_events = probe.current.device is not None
    dist.destroy_process_group()
    if record is None:
        write(folder, rank(), TrainedRank(has_events, flight_error=error or ""))
    else:
        write(folder, rank(), TrainedRank(has_events, record.last, record.num_pending))


def _flight_record() -> tuple[FlightRecord | None, str | None]:
    """Ask as the agent does, until nothing is pending or the time is over."""
    assert probe.current is not None
    box = probe.current.box.path
    socket = worker_socket(box, os.getuid(), str(box.with_suffix(".sock")))
    deadline = time.monotonic() + _RETIRED_SECONDS
    while True:
        answer = asyncio.run(evidence.gather(None, socket, stacks=False))
        record = answer.flight
        if record is None or not record.num_pending or time.monotonic() > deadline:
            return record, answer.flight_error
        time.sleep(0.2)


if __name__ == "__main__":
    main(*sys.argv[1:])
