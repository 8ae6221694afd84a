"""Allocates and frees known amounts, then runs steps without allocations until the probe has read the allocator."""

from __future__ import annotations

import os
import time

import torch

import zmon
from bench.gpu_check import nvidia_smi
from bench.gpu_check.jobs.joining import join, write_record
from bench.gpu_check.records import AllocatorFigures

HELD_BYTES, FREED_BYTES = 256 << 20, 512 << 20  # both, so that the allocated, reserved and peak bytes differ
_STEADY_SECONDS = 2.5  # the probe reads the allocator at most once a second


def main(folder: str, key: str) -> None:
    """Write what torch.cuda.memory_stats and nvidia-smi report at the end of the steps."""
    device = join(key)
    held = torch.ones(HELD_BYTES, dtype=torch.uint8, device=device.place)
    freed = torch.ones(FREED_BYTES, dtype=torch.uint8, device=device.place)
    del freed  # stays reserved by the allocator
    end = time.monotonic() + _STEADY_SECONDS
    while time.monotonic() < end:
        with zmon.step():
            device.busy(0.02)
        device.finish()
    stats = torch.cuda.memory_stats(device.place)
    figures = AllocatorFigures(
        stats["allocated_bytes.all.current"],
        stats["reserved_bytes.all.current"],
        stats["allocated_bytes.all.peak"],
        _process_bytes(),
    )
    del held
    write_record(folder, figures)


def _process_bytes() -> int | None:
    try:
        return nvidia_smi.process_bytes(os.getpid())
    except nvidia_smi.SmiFailed:
        return None
