"""Find the hardware reason why a rank is slow: its GPU lowers its clock, or its host keeps its processes waiting.

A reason counts only if the other ranks or hosts do not show it as well. Pressure is counted over the window of a host,
which is about a minute, and must explain a large part of the time that the rank lost in that window.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from zmon.detectors.new_finding import drain, new_finding
from zmon.detectors.wording import ranks_on
from zmon.schema.evidence import StragglerEvidence
from zmon.schema.finding import Finding
from zmon.schema.host import GpuSample, HostWindow
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.names import STEPS
from zmon.schema.rank import RankState

SHOWN = 8  # GPUs in the evidence
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
    every = [ThrottledRank(r, gpus[r.device], _reasons(gpus[r.device])) for r in snapshot.ranks if r.device in gpus]
    if len(every) > 1:
        counts = Counter(reason for rank in every for reason in rank.reasons)
        rare = {reason for reason, count in counts.items() if 2 * (count - 1) < len(every) - 1}
        every = [rank._replace(reasons=tuple(r for r in rank.reasons if r in rare)) for rank in every]
    return [rank for rank in every if rank.reasons]


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
        evidence=StragglerEvidence(throttled={rank.gpu.uuid: tuple(rank.reasons) for rank in hot[:SHOWN]}),
    )


def _reasons(gpu: GpuSample) -> tuple[str, ...]:
    return tuple(sorted(reason for reason, active in gpu.throttled.items() if active and reason != "sync_boost"))


def starved_host(
    snapshot: Snapshot, culprits: Sequence[RankState], lost_seconds: float, explained_ratio: float, times_others: float
) -> str | None:
    """Return how long a host has kept these ranks waiting, if that is about as long as they lost; else None.

    The culprits must be all ranks of the host, or of a control group. The wait must be at least `explained_ratio` of
    the lost time, and more than `times_others` times the longest wait elsewhere.
    """
    if len({r.host for r in culprits}) != 1:
        return None
    window = next((w for w in snapshot.hardware if w.host == culprits[0].host), None)
    if window is None or window.seconds <= 0:
        return None
    ranks = {r.rank for r in culprits}
    least_seconds = explained_ratio * min(lost_seconds, window.seconds)
    others = [other for other in snapshot.hardware if other is not window]
    ranks_of_host = {r.rank for r in snapshot.reported_ranks if r.host == window.host}
    waits: list[tuple[str, float, float]] = []  # resource, seconds, and the most seconds elsewhere in as much time
    if ranks_of_host == ranks and others:
        for resource, seconds in window.pressure_seconds.items():
            ratios = [other.pressure_ratio.get(resource, 0.0) for other in others]
            waits.append((resource, seconds, max(ratios, default=0.0) * window.seconds))
    elsewhere = [s for w in snapshot.hardware for s in _cgroup_seconds(w, snapshot.job_id, outside=ranks)]
    waits += [
        ("cores, as the share of its control group was used up", seconds, max(elsewhere, default=0.0))
        for seconds in _cgroup_seconds(window, snapshot.job_id, inside=ranks)
    ]
    enough = [(s, resource) for resource, s, most in waits if s >= least_seconds and s > times_others * most]
    if not enough:
        return None
    longest, resource = max(enough)
    return f"on {window.host} it waited {longest:.1f} s of the last {window.seconds:.0f} s for {resource}"


def _cgroup_seconds(
    window: HostWindow, job_id: str, inside: Collection[int] = (), outside: Collection[int] = ()
) -> Iterator[float]:
    """Yield the throttled seconds of each control group with ranks of the job.

    With `inside`, all ranks of the group must be among those; with `outside`, none of them may be.
    """
    before = {group.path: group.throttled_seconds for group in window.before.cgroups or ()}
    for group in window.now.cgroups or ():
        ranks, then = {rank for job, rank in group.ranks if job == job_id}, before.get(group.path)
        if not ranks or then is None or group.throttled_seconds is None:
            continue
        if (inside and ranks <= set(inside)) or (outside and not ranks & set(outside)):
            yield max(group.throttled_seconds - then, 0.0)
