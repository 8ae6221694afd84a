"""Find the hardware reason why a rank is slow: its GPU lowers its clock, or its host keeps its processes waiting. Pure.

A reason counts only if the other ranks or hosts do not show it as well. The wait for a resource is counted over the
window of a host, about a minute. It must be a large part of the time that the rank lost in that window.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence, Set
from typing import NamedTuple

from zmon.detectors.new_finding import drain, new_finding
from zmon.detectors.wording import ranks_on
from zmon.schema.evidence import StragglerEvidence
from zmon.schema.finding import Finding
from zmon.schema.host import GpuSample, HostWindow
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.names import STEPS
from zmon.schema.rank import RankState

_MAX_GPUS = 8  # in the evidence
_THERMAL = frozenset(("hw_thermal", "sw_thermal"))


class ThrottledRank(NamedTuple):
    """A rank whose GPU lowers its clock, and the reasons that the driver gives."""

    state: RankState
    gpu: GpuSample
    reasons: tuple[str, ...]

    @property
    def is_hot(self) -> bool:
        """True if heat is a reason; a power cap may be intended."""
        return not _THERMAL.isdisjoint(self.reasons)

    @property
    def summary(self) -> str:
        """The GPU, its temperature and the reasons, for a finding's summary."""
        celsius = self.gpu.temperature_celsius
        temperature = "" if celsius is None else f" at {celsius:.0f} °C"
        gpu = f"GPU {self.gpu.gpu} ({self.gpu.uuid}) on {self.state.host}"
        return f"{gpu} lowers its clock{temperature}: {', '.join(self.reasons)}"

    @property
    def advice(self) -> str:
        """The next steps, for a finding's detail."""
        return (
            f"On {self.state.host}: `nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER -i {self.gpu.gpu}`; check fans, "
            f"inlet temperature and power supply. If it stays: {drain(self.state.host)}."
        )


def throttled_ranks(snapshot: Snapshot) -> list[ThrottledRank]:
    """Return the ranks whose GPU is throttled now, for reasons that less than half of the other GPUs show."""
    gpus = {gpu.uuid: gpu for window in snapshot.hardware for gpu in window.now.gpus or ()}
    ranks = [ThrottledRank(r, gpus[r.device], _reasons(gpus[r.device])) for r in snapshot.ranks if r.device in gpus]
    if len(ranks) > 1:
        counts = Counter(reason for rank in ranks for reason in rank.reasons)
        rare = {reason for reason, count in counts.items() if 2 * (count - 1) < len(ranks) - 1}
        ranks = [rank._replace(reasons=tuple(r for r in rank.reasons if r in rare)) for rank in ranks]
    return [rank for rank in ranks if rank.reasons]


def hot_gpu(snapshot: Snapshot, detector: str, cost_ratio: float) -> Finding | None:
    """Return a finding about a GPU that is too hot, before it costs `cost_ratio` of a step; None if there is none."""
    hot = [rank for rank in throttled_ranks(snapshot) if rank.is_hot]
    if not hot:
        return None
    culprits = [rank.state for rank in hot]
    return new_finding(
        snapshot,
        detector=detector,
        cause="thermal_throttle",
        severity="info",
        proof=STEPS,
        culprits=culprits,
        seconds_ago=0.0,
        confidence=0.6,
        summary=f"{ranks_on(culprits)}: {hot[0].summary}; it does not hold the others back by {cost_ratio:.0%} of a "
        "step yet",
        detail=hot[0].advice,
        evidence=StragglerEvidence(throttled={rank.gpu.uuid: tuple(rank.reasons) for rank in hot[:_MAX_GPUS]}),
    )


def _reasons(gpu: GpuSample) -> tuple[str, ...]:
    return tuple(sorted(reason for reason, active in gpu.throttled.items() if active and reason != "sync_boost"))


class _Wait(NamedTuple):
    """The seconds for which ranks waited for a resource, and the longest wait for it elsewhere in as much time."""

    seconds: float
    resource: str
    longest_elsewhere: float


def starved_host(
    snapshot: Snapshot, culprits: Sequence[RankState], lost_seconds: float, explained_ratio: float, starved_ratio: float
) -> str | None:
    """Return how long a host has kept these ranks waiting, if that is about as long as they lost; else None.

    The culprits must be all ranks of the host, or of a control group. The wait must be at least `explained_ratio` of
    the lost time, and more than `starved_ratio` times the longest wait elsewhere.
    """
    if len({r.host for r in culprits}) != 1:
        return None
    window = next((w for w in snapshot.hardware if w.host == culprits[0].host), None)
    if window is None or window.seconds <= 0:
        return None
    ranks = {r.rank for r in culprits}
    waits = [*_waits_of_host(snapshot, window, ranks), *_waits_of_groups(snapshot, window, ranks)]
    least_seconds = explained_ratio * min(lost_seconds, window.seconds)
    long_waits = [w for w in waits if w.seconds >= least_seconds and w.seconds > starved_ratio * w.longest_elsewhere]
    if not long_waits:
        return None
    wait = max(long_waits)  # the longest one
    return f"on {window.host} it waited {wait.seconds:.1f} s of the last {window.seconds:.0f} s for {wait.resource}"


def _waits_of_host(snapshot: Snapshot, window: HostWindow, ranks: Set[int]) -> Iterator[_Wait]:
    """Yield the pressure on each resource of a host, if the job's ranks there are these, and there are other hosts."""
    others = [other for other in snapshot.hardware if other is not window]
    ranks_of_host = {r.rank for r in snapshot.reported_ranks if r.host == window.host}
    if ranks_of_host != ranks or not others:
        return
    for resource, seconds in window.pressure_seconds.items():
        longest_ratio = max(other.pressure_ratio.get(resource, 0.0) for other in others)
        yield _Wait(seconds, resource, longest_ratio * window.seconds)


def _waits_of_groups(snapshot: Snapshot, window: HostWindow, ranks: Set[int]) -> Iterator[_Wait]:
    """Yield for how long each control group of a host was throttled, if all its ranks are among these."""
    groups = [group for host in snapshot.hardware for group in _throttled_groups(host, snapshot.job_id)]
    elsewhere = max((group.seconds for group in groups if not group.ranks & ranks), default=0.0)
    for group in _throttled_groups(window, snapshot.job_id):
        if group.ranks <= ranks:
            yield _Wait(group.seconds, "cores, as the share of its control group was used up", elsewhere)


class _ThrottledGroup(NamedTuple):
    """The ranks of a job in a control group, and for how long their share of cores was used up."""

    ranks: Set[int]
    seconds: float


def _throttled_groups(window: HostWindow, job_id: str) -> Iterator[_ThrottledGroup]:
    """Yield each control group of a host that has ranks of the job, as far as its times are known."""
    before = {group.path: group.throttled_seconds for group in window.before.cgroups or ()}
    for group in window.now.cgroups or ():
        ranks = {rank for job, rank in group.ranks if job == job_id}
        then = before.get(group.path)
        if ranks and then is not None and group.throttled_seconds is not None:
            yield _ThrottledGroup(ranks, max(group.throttled_seconds - then, 0.0))
