"""Trains with DDP until it is stopped, a step about every 20 ms, for faults that come from outside."""

from __future__ import annotations

from bench.gpu_check.jobs.joining import join
from bench.gpu_check.jobs.parallel import Parallelism, make_train_step

_KERNEL_SECONDS = 0.02


def main(_: str, key: str) -> None:
    """Train until the process is ended."""
    device = join(key)
    step = make_train_step(device, Parallelism.DDP)
    while True:
        step()
        device.busy(_KERNEL_SECONDS)
        device.finish()
