"""Waits for an asynchronous collective behind a kernel: of no length, of half the wait, and of twice the wait.

With NCCL, the wait is that for a large all-gather, which the rank times alone before. It runs on NCCL's own stream, so
this holds with a single rank, where it is a copy. With gloo, rank 1 arrives late at an all-reduce, and rank 0 waits.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import torch
import torch.distributed as dist

import zmon
from bench.device import Device
from bench.gpu_check.jobs.joining import join, rank
from bench.gpu_check.records import HIDDEN_SHARES, Overlaps, write
from bench.gpu_check.settings import BY_KEY

LATE_SECONDS = 0.4
_MAX_BYTES = 8 << 30  # of the gathered tensor
_MEMORY_SHARE = 4  # the gathered tensor takes at most this fraction (1 ÷ 4) of the free memory
_REPEATS = 3


def main(folder: str, key: str) -> None:
    """Run a step for each kernel, and write the exposed time that follows from the lengths."""
    device = join(key)
    by_nccl = BY_KEY[key].backend == "nccl"
    record = _all_gather(device) if by_nccl else _late_all_reduce(device)
    dist.destroy_process_group()
    write(folder, rank(), record)


def _all_gather(device: Device) -> Overlaps:
    free, _ = torch.cuda.mem_get_info(device.place)
    size = min(_MAX_BYTES, free // _MEMORY_SHARE) // dist.get_world_size()
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
    waits = torch.tensor(min(times), device=device.place)
    dist.all_reduce(waits, dist.ReduceOp.MAX)
    seconds = waits.item()
    _steps(device, lambda: dist.all_gather_into_tensor(whole, part, async_op=True), seconds)
    return Overlaps("all_gather", tuple(max(0.0, seconds * (1 - share)) for share in HIDDEN_SHARES), seconds)


def _late_all_reduce(device: Device) -> Overlaps:
    tensor = torch.ones(1000, device=device.place)
    dist.all_reduce(tensor)
    is_late = dist.get_rank() == 1

    def issue() -> dist.Work:
        if is_late:
            time.sleep(LATE_SECONDS)
        return dist.all_reduce(tensor, async_op=True)

    _steps(device, issue, LATE_SECONDS)
    waits = 0.0 if is_late else LATE_SECONDS
    return Overlaps("all_reduce", tuple(max(0.0, waits * (1 - share)) for share in HIDDEN_SHARES), waits)


def _steps(device: Device, issue: Callable[[], dist.Work], waits: float) -> None:
    for share in HIDDEN_SHARES:
        device.finish()
        dist.barrier()
        device.finish()
        with zmon.step():
            zmon.phase("forward")
            work = issue()
            zmon.phase("backward")
            device.busy(waits * share)
            work.wait()
            zmon.phase("optimizer")
        device.finish()


if __name__ == "__main__":
    main(*sys.argv[1:])
