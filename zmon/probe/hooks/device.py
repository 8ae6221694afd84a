"""Reads the GPU of the rank: its UUID, the device time of each part of a step, and the allocator's memory."""

from __future__ import annotations

import torch

from zmon import probe
from zmon.probe.device_time import DeviceTime


def install() -> None:
    """Let the probe read the memory and the times of the device, if there is a GPU."""
    timeline = probe.current
    if timeline is not None:
        timeline.make_device_time = make_device_time
        timeline.ledger.memory_reader = read_memory


def identify_device() -> None:
    """Write the UUID and name of the device into the box; a rank with a process group has chosen its device."""
    if torch.cuda.is_initialized():
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        probe.identify(device=f"GPU-{properties.uuid}", device_name=properties.name)


def make_device_time() -> DeviceTime | None:
    """Return a `DeviceTime` for the rank's stream, or None while the rank uses no GPU."""
    if not torch.cuda.is_initialized():
        return None
    identify_device()
    return DeviceTime(
        lambda: torch.cuda.Event(enable_timing=True), lambda: not torch.cuda.is_current_stream_capturing()
    )


def read_memory() -> tuple[int, int, int] | None:
    """Return the bytes allocated, reserved and allocated at the peak; None on the CPU, or if they are unknown.

    This reads the allocator's nested dictionary. `torch.cuda.memory_stats` flattens it, which costs many times more.
    """
    if not torch.cuda.is_initialized():
        return None
    try:
        stats = torch.cuda.memory_stats_as_nested_dict()
    except RuntimeError:  # an allocator that the job has plugged in, such as that of RAPIDS, does not count
        return None
    allocated = stats["allocated_bytes"]["all"]
    return allocated["current"], stats["reserved_bytes"]["all"]["current"], allocated["peak"]
