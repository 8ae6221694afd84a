"""The work of a job relative to the peak of its devices. Pure.

The floating-point operations of all ranks in the recent steps are divided by the duration of these steps, and by the
sum of the peaks of all devices. The same is done with the memory traffic. A ratio is unknown if the work or the device
of one rank is unknown. Ranks that share a device, such as the processors of a host, share its peak.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from zmon.job.efficiency import RECENT_STEPS
from zmon.scaling.peaks import DevicePeaks, peaks_of
from zmon.schema.aligned_step import AlignedStep
from zmon.schema.job import Utilization
from zmon.schema.names import FLOPS_SOURCES, in_order
from zmon.schema.rank import RankState
from zmon.schema.unknown import Unknown


def known_sum(values: Sequence[float | None]) -> float | None:
    """Return the sum of these values; None if a value is unknown."""
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


@dataclass(frozen=True, slots=True)
class JobPeaks:
    """The peak rates of all devices of a job together."""

    flops: float  # operations per second, in the dtypes of the job
    memory_bandwidth: float | None  # bytes/s


@dataclass(frozen=True, slots=True)
class StepWork:
    """The work of all ranks in some steps."""

    steps: int
    seconds: float
    flops: float
    memory_traffic: float | None  # bytes


@dataclass
class RecentWork:
    """The work of the recent steps of one launch."""

    steps: deque[StepWork] = field(default_factory=lambda: deque(maxlen=RECENT_STEPS))

    def add(self, steps: Sequence[AlignedStep]) -> None:
        """Add the steps that follow the steps added before, without steps whose operations are unknown."""
        for step in steps:
            mean = step.mean or step
            num_steps = step.stands_for
            if mean.flops is not None:
                traffic = None if mean.memory_traffic_bytes is None else mean.memory_traffic_bytes * num_steps
                self.steps.append(StepWork(num_steps, mean.seconds * num_steps, mean.flops * num_steps, traffic))

    @property
    def total(self) -> StepWork | None:
        """The work of all recent steps together; None without a step. The traffic needs the traffic of every step."""
        seconds = sum(step.seconds for step in self.steps)
        if not seconds:
            return None
        return StepWork(
            sum(step.steps for step in self.steps),
            seconds,
            sum(step.flops for step in self.steps),
            known_sum([step.memory_traffic for step in self.steps]),
        )


def job_peaks(ranks: Sequence[RankState], world_size: int, measured: Mapping[str, DevicePeaks]) -> JobPeaks | Unknown:
    """Return the summed peaks of these ranks' devices, or the reason why a peak is unknown.

    `measured` has the peaks that the site has measured, by the name of the device.
    """
    if len(ranks) < world_size:
        return Unknown("the devices of some ranks are unknown: no agent reported these ranks")
    ranks_of_device = Counter((rank.host, rank.device) for rank in ranks)
    flops = 0.0
    bandwidths: list[float | None] = []
    for rank in ranks:
        peaks = peaks_of(rank.device_name, measured) if rank.device_name else None
        if peaks is None:
            name = rank.device_name or f"the device of rank {rank.rank}"
            return Unknown(f"the peak of {name} is unknown: add it to the file of zmon hub --peaks")
        peak = peaks.flops_of(rank.flops_dtypes)
        if peak is None:
            dtypes = ", ".join(rank.flops_dtypes) or "an unknown dtype"
            return Unknown(f"the peak of {rank.device_name} in {dtypes} is unknown")
        num_sharing = ranks_of_device[rank.host, rank.device]
        flops += peak / num_sharing
        bandwidths.append(None if peaks.memory_bandwidth is None else peaks.memory_bandwidth / num_sharing)
    return JobPeaks(flops, known_sum(bandwidths))


def flops_source(ranks: Sequence[RankState]) -> str | Unknown:
    """Return the least certain source of the ranks' operations, or the reason why operations of a rank are unknown."""
    sources = {rank.flops_source for rank in ranks}
    if "" not in sources:
        return in_order(sources, FLOPS_SOURCES)[-1]
    reason = next((rank.uncounted for rank in ranks if not rank.flops_source and rank.uncounted), "")
    return Unknown(reason or "the job does not call zmon.work(flops=…), and no step was counted yet")


def utilization(
    work: StepWork, source: str, peaks: JobPeaks, wall_ratio: float | None, uncounted: str = ""
) -> Utilization:
    """Return the ratios of some steps to the peaks."""
    rate = work.flops / work.seconds
    memory_ratio = roofline_ratio = memory_bound = None
    if work.memory_traffic and peaks.memory_bandwidth:
        memory_ratio = work.memory_traffic / work.seconds / peaks.memory_bandwidth
        attainable = peaks.memory_bandwidth * work.flops / work.memory_traffic
        memory_bound = attainable < peaks.flops
        if work.flops:
            roofline_ratio = rate / min(attainable, peaks.flops)
    return Utilization(
        source=source, flops_per_second=rate, peak_flops=peaks.flops, step_ratio=rate / peaks.flops,
        wall_ratio=wall_ratio, memory_ratio=memory_ratio, roofline_ratio=roofline_ratio, memory_bound=memory_bound,
        uncounted=uncounted,
    )  # fmt: skip
