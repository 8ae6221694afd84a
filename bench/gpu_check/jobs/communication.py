"""Runs steps that issue the same collective, each with a kernel of another duration while the rank waits for it.

With NCCL, the rank waits for a large all-gather, whose duration it measures before. NCCL has its own stream, so this
works with a single rank too, where the all-gather is a copy. With gloo, rank 1 enters an all-reduce late, and rank 0
waits for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
import torch.distributed as dist

import zmon
from bench.device import Device
from bench.gpu_check.jobs.joining import join, write_record
from bench.gpu_check.records import HiddenStep, OverlapSteps
from bench.gpu_check.settings import BY_KEY

_KERNEL_RATIOS = (0.0, 0.5, 2.0)  # the kernel's duration ÷ that of the wait: hides nothing, half, all of it
_LATE_SECONDS = 0.4  # the delay of rank 1
_MAX_BYTES = 8 << 30  # of the gathered tensor
_MEMORY_DIVISOR = 4  # the gathered tensor takes at most a fourth of the free memory
_REPEATS = 3  # measurements of the all-gather; the fastest counts


def main(folder: str, key: str) -> None:
    """Run a step for each kernel, and write the exposed time that follows from its duration."""
    device = join(key)
    by_nccl = BY_KEY[key].backend == "nccl"
    record = _all_gather(device) if by_nccl else _late_all_reduce(device)
    dist.destroy_process_group()
    write_record(folder, record)


def _all_gather(device: Device) -> OverlapSteps:
    free, _ = torch.cuda.mem_get_info(device.place)
    size = min(_MAX_BYTES, free // _MEMORY_DIVISOR) // dist.get_world_size()
    part = torch.ones(size, dtype=torch.uint8, device=device.place)
    whole = torch.empty(size * dist.get_world_size(), dtype=torch.uint8, device=device.place)
    dist.all_gather_into_tensor(whole, part)  # creates the communicator
    device.finish()
    times = []
    for _ in range(_REPEATS):
        begin = device.mark()
        dist.all_gather_into_tensor(whole, part)
        end = device.mark()
        device.finish()
        times.append(device.seconds(begin, end))
    slowest = torch.tensor(min(times), device=device.place)
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    wait_seconds = slowest.item()
    _run_steps(device, lambda: dist.all_gather_into_tensor(whole, part, async_op=True), wait_seconds)
    return _expected("all_gather", wait_seconds)


def _late_all_reduce(device: Device) -> OverlapSteps:
    tensor = torch.ones(1000, device=device.place)
    dist.all_reduce(tensor)
    is_late = dist.get_rank() == 1

    def issue() -> dist.Work:
        if is_late:
            time.sleep(_LATE_SECONDS)
        return dist.all_reduce(tensor, async_op=True)

    _run_steps(device, issue, _LATE_SECONDS)
    return _expected("all_reduce", 0.0 if is_late else _LATE_SECONDS)


def _run_steps(device: Device, issue: Callable[[], dist.Work], wait_seconds: float) -> None:
    """Run a step for each kernel. The step issues the collective, starts the kernel, and waits for the collective."""
    for ratio in _KERNEL_RATIOS:
        device.finish()
        dist.barrier()
        device.finish()
        with zmon.step():
            zmon.phase("forward")
            work = issue()
            zmon.phase("backward")
            device.busy(wait_seconds * ratio)
            work.wait()
            zmon.phase("optimizer")
        device.finish()


def _expected(op: str, wait_seconds: float) -> OverlapSteps:
    """Return the record of a rank that waits this long for the collective if no kernel hides the wait."""
    steps = tuple(HiddenStep(ratio, max(0.0, wait_seconds * (1 - ratio))) for ratio in _KERNEL_RATIOS)
    return OverlapSteps(op, wait_seconds, steps)
