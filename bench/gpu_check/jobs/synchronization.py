"""Submits steps while the device is busy with a long kernel, with zmon and without it.

A call that waits for the device would return only after the kernel. In addition, torch's own check raises an error at
calls that synchronize. It covers torch's operators, but neither events nor collectives.
"""

from __future__ import annotations

import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from bench.device import Device
from bench.gpu_check.jobs.joining import join, write_record
from bench.gpu_check.records import SubmittedSteps
from zmon import probe

_KERNEL_SECONDS = 1.0
_STEPS = 3  # few enough for the launch queue of the device, in which the host waits once it is full
_WARM_UP_STEPS = 10
_WIDTH, _SAMPLES = 64, 16


class Training:
    """A small DDP training without a call that waits for the device."""

    def __init__(self, device: Device) -> None:
        layers = nn.Sequential(nn.Linear(_WIDTH, _WIDTH), nn.ReLU(), nn.Linear(_WIDTH, 1)).to(device.place)
        self._model = DistributedDataParallel(layers)
        self._optimizer = torch.optim.SGD(self._model.parameters(), lr=1e-3)
        self._batch = torch.ones(_SAMPLES, _WIDTH, device=device.place)
        self._metric = torch.ones(1, device=device.place)

    def step(self) -> None:
        """Do one update; a metric is all-reduced meanwhile."""
        work = dist.all_reduce(self._metric, async_op=True)
        loss = self._model(self._batch).square().mean()
        self._optimizer.zero_grad()
        loss.backward()
        work.wait()
        self._optimizer.step()


def submit(training: Training, device: Device) -> float:
    """Submit steps behind a long kernel; return the host's seconds."""
    device.finish()
    device.busy(_KERNEL_SECONDS)
    begin = time.perf_counter()
    for _ in range(_STEPS):
        training.step()
    seconds = time.perf_counter() - begin
    device.finish()
    return seconds


def main(folder: str, key: str) -> None:
    """Submit steps with zmon, without it, and under torch's check. Write the times and what the check raised."""
    device = join(key)
    training = Training(device)
    for _ in range(_WARM_UP_STEPS):
        training.step()
    timeline = probe.current
    assert timeline is not None
    watched_seconds = submit(training, device)
    probe.current = None
    absent_seconds = submit(training, device)
    probe.current = timeline
    timeline.turn_to(timeline.activity)  # the time without zmon belongs to no step
    dropped_before = timeline.ledger.dropped
    error = ""
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(_STEPS):
            training.step()
    except RuntimeError as failure:
        error = str(failure).partition("\n")[0]
    finally:
        torch.cuda.set_sync_debug_mode("default")
    num_dropped = timeline.ledger.dropped - dropped_before
    device.finish()
    dist.destroy_process_group()
    write_record(folder, SubmittedSteps(_KERNEL_SECONDS, watched_seconds, absent_seconds, num_dropped, error))
