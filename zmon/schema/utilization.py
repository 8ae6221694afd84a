"""The work of a job relative to the peak of its devices, and how busy its GPUs are. Frozen data only."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Utilization:
    """The work of all ranks, relative to the peak of all their devices."""

    source: str  # where the numbers of operations come from, see FLOPS_SOURCES: the least certain of the ranks
    flops_per_second: float  # of all ranks, over the recent steps
    peak_flops: float  # of all devices, per second
    step_ratio: float  # of the peak, over the recent steps
    wall_ratio: float | None  # of the peak, over the wall-clock time of all launches; None: no time passed yet
    memory_ratio: float | None = None  # of the memory bandwidth, over the recent steps; None: unknown traffic or peak
    # Of the roofline: min(peak, bandwidth × operations ÷ byte) (Williams, Waterman & Patterson 2009).
    roofline_ratio: float | None = None
    memory_bound: bool | None = None  # True: the bandwidth limits the job, not the peak of its operations
    uncounted: str = ""  # what the count of operations leaves out


@dataclass(frozen=True, slots=True)
class GpuActivity:
    """The activity of all GPUs of a job, as they measure it themselves."""

    tensor_ratio: float  # share of time in which the tensor cores worked, in the last minute of training
    tensor_wall_ratio: float | None  # the same over wall-clock time, restarts included; None: no time passed yet
    memory_ratio: float | None = None  # traffic of the memory ÷ its bandwidth, in the last minute of training
