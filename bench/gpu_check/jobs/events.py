"""Launches kernels of known lengths in the phases of some steps, each between two device events of the job itself."""

from __future__ import annotations

import time
from typing import Any

import zmon
from bench.gpu_check.jobs.joining import join, write_record
from bench.gpu_check.records import TimedKernels
from zmon import probe

_STEPS = 20
_KERNELS = {"forward": 0.020, "backward": 0.005, "optimizer": 0.001}  # seconds of the kernel of each phase


def main(folder: str, key: str) -> None:
    """Run the steps without waiting for the device, then write the times of the kernels."""
    device = join(key)
    steps: list[dict[str, tuple[Any, Any]]] = []  # the marks around the kernel of each phase
    begin = time.perf_counter()
    first = device.mark()
    for _ in range(_STEPS):
        steps.append({})
        with zmon.step():
            for phase, seconds in _KERNELS.items():
                zmon.phase(phase)
                before = device.mark()
                device.busy(seconds)
                steps[-1][phase] = before, device.mark()
    host_seconds = time.perf_counter() - begin
    last = device.mark()
    device.finish()
    times = tuple({phase: device.seconds(*marks) for phase, marks in step.items()} for step in steps)
    has_events = probe.current is not None and probe.current.device is not None
    write_record(folder, TimedKernels(times, host_seconds, device.seconds(first, last), has_events))
