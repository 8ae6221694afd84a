"""The device of a rank of a benchmark: work of a known length on it, and its clock.

On a GPU, work is a kernel that counts cycles, and the clock is a pair of CUDA events. These are not zmon's
own events, which the benchmark measures. On the CPU, work is a sleep, and the clock is the host's.
"""

from __future__ import annotations

import time
from typing import Any, Protocol

import torch

_WARM_UP_CYCLES = _TIMED_CYCLES = 200_000_000  # about 0.1 s each: the first lets the clocks of the GPU rise
_MAX_CYCLES = 1_000_000_000  # of one kernel


class Device(Protocol):
    """The operations of a benchmark on the device of its rank."""

    place: torch.device  # of the tensors

    def busy(self, seconds: float) -> None:
        """Keep the device busy for about this many seconds; on a GPU, the host does not wait for it."""

    def mark(self) -> Any:
        """Return a mark, which the device passes when it has done all work that was submitted before."""

    def seconds(self, begin: Any, end: Any) -> float:
        """Return the seconds between two marks. The device must have passed both: call `finish` first."""

    def finish(self) -> None:
        """Wait until the device has done all work."""


class Gpu:
    """A GPU, with times from CUDA events. `torch.cuda._sleep` is torch's only kernel of a known length."""

    def __init__(self, index: int) -> None:
        self.place = torch.device("cuda", index)
        torch.cuda.set_device(self.place)
        torch.cuda._sleep(_WARM_UP_CYCLES)
        begin = self.mark()
        torch.cuda._sleep(_TIMED_CYCLES)
        end = self.mark()
        self.finish()
        self._hertz = _TIMED_CYCLES / self.seconds(begin, end)

    def busy(self, seconds: float) -> None:
        """Launch kernels that count cycles."""
        cycles = int(seconds * self._hertz)
        while cycles > 0:
            torch.cuda._sleep(min(cycles, _MAX_CYCLES))
            cycles -= _MAX_CYCLES

    def mark(self) -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def seconds(self, begin: torch.cuda.Event, end: torch.cuda.Event) -> float:
        return float(begin.elapsed_time(end)) / 1e3

    def finish(self) -> None:
        torch.cuda.synchronize(self.place)


class Cpu:
    """The processor, with times from the host's clock."""

    place = torch.device("cpu")

    def busy(self, seconds: float) -> None:
        time.sleep(seconds)

    def mark(self) -> float:
        return time.perf_counter()

    def seconds(self, begin: float, end: float) -> float:
        return end - begin

    def finish(self) -> None:
        """Do nothing, because all work is done when its call returns."""
