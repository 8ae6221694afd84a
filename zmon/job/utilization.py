"""The work of a job, relative to the peak of its devices.

Pure. The floating-point operations and the memory traffic of the recent steps, of all ranks, are divided by their
duration and by the sum of the peaks of all devices. A ratio is unknown if one rank's work or device is unknown. Ranks
that share a device, such as the processors of a host, share its peak.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from zmon.scaling.peaks import DevicePeaks, peaks_of
from zmon.schema.aligned_step import AlignedStep
from zmon.schema.names import FLOPS_SOURCES, in_order
from zmon.schema.rank import RankState
from zmon.schema.unknown import Unknown
from zmon.schema.utilization import Utilization

_RECENT_STEPS = 256


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

    steps: deque[StepWork] = field(default_factory=lambda: deque(maxlen=_RECENT_STEPS))

    def add(self, steps: Sequence[AlignedStep]) -> None:
        """Add the steps that follow those added before; those with unknown operations are left out."""
        for step in steps:
            of = step.mean or step
            if of.flops is not None:
                number, traffic = step.stands_for, of.memory_traffic_bytes
                work = StepWork(
                    number, of.seconds * number, of.flops * number, None if traffic is None else traffic * number
                )
                self.steps.append(work)

    @property
    def total(self) -> StepWork | None:
        """The work of all recent steps together; None if there are none. Its traffic is unknown if that of one is."""
        seconds = sum(step.seconds for step in self.steps)
        if not seconds:
            return None
        traffic = [step.memory_traffic for step in self.steps if step.memory_traffic is not None]
        return StepWork(
            sum(step.steps for step in self.steps),
            seconds,
            sum(step.flops for step in self.steps),
            sum(traffic) if len(traffic) == len(self.steps) else None,
        )


def job_peaks(ranks: Sequence[RankState], world_size: int, measured: Mapping[str, DevicePeaks]) -> JobPeaks | Unknown:
    """Return the peaks of the devices of these ranks, or why they are unknown.

    `measured` has the peaks of the site's own devices by name.
    """
    if len(ranks) < world_size:
        return Unknown("the devices of some ranks are unknown: no agent reported these ranks")
    sharing = Counter((rank.host, rank.device) for rank in ranks)
    flops, bandwidths = 0.0, []
    for rank in ranks:
        peaks = peaks_of(rank.device_name, measured) if rank.device_name else None
        if peaks is None:
            name = rank.device_name or f"the device of rank {rank.rank}"
            return Unknown(f"the peak of {name} is unknown: add it to the file of zmon hub --peaks")
        own = peaks.flops_of(rank.flops_dtypes)
        if own is None:
            dtypes = ", ".join(rank.flops_dtypes) or "an unknown dtype"
            return Unknown(f"the peak of {rank.device_name} in {dtypes} is unknown")
        number = sharing[rank.host, rank.device]
        flops += own / number
        bandwidths.append(None if peaks.memory_bandwidth is None else peaks.memory_bandwidth / number)
    known = [bandwidth for bandwidth in bandwidths if bandwidth is not None]
    return JobPeaks(flops, sum(known) if len(known) == len(bandwidths) else None)


def flops_source(ranks: Sequence[RankState]) -> str | Unknown:
    """Return the least certain source of the ranks' operations, or why those of a rank are unknown."""
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
        source, rate, peaks.flops, rate / peaks.flops, wall_ratio, memory_ratio, roofline_ratio, memory_bound, uncounted
    )
