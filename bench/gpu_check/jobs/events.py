"""Launches kernels of known lengths in the phases of some steps, each between two events of the job's own."""

from __future__ import annotations

import sys
import time

import zmon
from bench.gpu_check.jobs.joining import join, rank
from bench.gpu_check.records import TimedKernels, write
from zmon import probe

STEPS = 20
KERNELS = {"forward": 0.020, "backward": 0.005, "optimizer": 0.001}  # seconds


def main(folder: str, key: str) -> None:
    """Run the steps without waiting for the device, then write the times of the kernels."""
    device = join(key)
    marks = []
    begin, first = time.perf_counter(), device.mark()
    for _ in range(STEPS):
        with zmon.step():
            for phase, seconds in KERNELS.items():
                zmon.phase(phase)
                before = device.mark()
                device.busy(seconds)
                marks.append((phase, before, device.mark()))
    host_seconds, last = time.perf_counter() - begin, device.mark()
    device.finish()
    times = [{phase: device.seconds(*pair) for phase, *pair in _step(marks, number)} for number in range(STEPS)]
    has_events = probe.current is not None and probe.current.device is not None
    write(folder, rank(), TimedKernels(tuple(times), host_seconds, device.seconds(first, last), has_events))


def _step(marks: list[tuple[str, object, object]], number: int) -> list[tuple[str, object, object]]:
    return marks[number * len(KERNELS) : (number + 1) * len(KERNELS)]


if __name__ == "__main__":
    main(*sys.argv[1:])
