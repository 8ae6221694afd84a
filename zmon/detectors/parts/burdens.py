"""What does the hardware say of a rank that is slow: does its GPU hold its clock down, does its host starve it?

Only what the others do not show as well explains anything. Pressure is counted over the window of a host, about a
minute: it must amount to a good part of what the rank has lost in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from zmon.detectors.parts.pressure import waited, waited_ratio
from zmon.detectors.parts.verdict import drain
from zmon.schema.host import CgroupSample, GpuSample, HostWindow
from zmon.schema.rank import RankState
from zmon.schema.snapshot import Snapshot

_THERMAL = frozenset(("hw_thermal", "sw_thermal"))


class Throttled(NamedTuple):
    """A rank's GPU that holds its clock down, and why it does."""

    state: RankState
    gpu: GpuSample
    reasons: tuple[str, ...]

    @property
    def hot(self) -> bool:
        """Whether it does for heat; a power cap may be wanted."""
        return not _THERMAL.isdisjoint(self.reasons)

    @property
    def says(self) -> str:
        """What it does."""
        heat = self.gpu.temperature_celsius
        at = "" if heat is None else f" at {heat:.0f} °C"
        gpu = f"GPU {self.gpu.gpu} ({self.gpu.uuid}) on {self.state.host}"
        return f"{gpu} holds its clock down{at}: {', '.join(self.reasons)}"

    @property
    def advice(self) -> str:
        """What to do next."""
        return (
            f"On {self.state.host}: `nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER -i {self.gpu.gpu}`; look at fans, "
            f"inlet and power supply. If it stays: {drain(self.state.host)}."
        )


class Starved(NamedTuple):
    """For what the ranks' processes waited, and how long."""

    what: str
    seconds: float
    window_seconds: float
    host: str

    @property
    def says(self) -> str:
        """For what, and how long."""
        return f"on {self.host} it waited {self.seconds:.1f} s of the last {self.window_seconds:.0f} for {self.what}"


def throttled(snapshot: Snapshot) -> list[Throttled]:
    """The ranks whose GPU is throttled now, by reasons that less than half of the others' GPUs show."""
    cards = {gpu.uuid: gpu for window in snapshot.hardware for gpu in window.now.gpus or ()}
    found = [Throttled(r, cards[r.device], _reasons(cards[r.device])) for r in snapshot.ranks if r.device in cards]
    shown = Counter(why for one in found for why in one.reasons)
    own = (one._replace(reasons=tuple(w for w in one.reasons if 2 * (shown[w] - 1) < len(found) - 1)) for one in found)
    return [one for one in own if one.reasons] if len(found) > 1 else [one for one in found if one.reasons]


def _reasons(gpu: GpuSample) -> tuple[str, ...]:
    return tuple(sorted(why for why, active in gpu.throttled.items() if active and why != "sync_boost"))


def starved(
    snapshot: Snapshot, culprits: Sequence[RankState], lost_seconds: float, explained_ratio: float, times_others: float
) -> Starved | None:
    """Whether these ranks are all of a host, or of a control group, that alone kept them waiting for what they lost.

    It explains `explained_ratio` of what was lost at least, and is more than `times_others` what any other shows.
    """
    if len({r.host for r in culprits}) != 1:
        return None
    window = next((w for w in snapshot.hardware if w.host == culprits[0].host), None)
    if window is None or window.seconds <= 0:
        return None
    ranks = {r.rank for r in culprits}
    least = explained_ratio * min(lost_seconds, window.seconds)
    others = [other for other in snapshot.hardware if other is not window]
    here = {r.rank for r in snapshot.reported_ranks if r.host == window.host}
    waits: list[tuple[str, float, float]] = []  # for what, how long, and the most of the others in as much time
    if here == ranks and others:
        for resource, seconds in waited(window).items():
            rates = [waited_ratio(other).get(resource, 0.0) for other in others]
            waits.append((resource, seconds, max(rates, default=0.0) * window.seconds))
    elsewhere = [s for w in snapshot.hardware for s in _held_back(w, snapshot.job_id, outside=ranks)]
    waits += [
        ("its share of cores, used up", seconds, max(elsewhere, default=0.0))
        for seconds in _held_back(window, snapshot.job_id, inside=ranks)
    ]
    enough = [(s, what) for what, s, most in waits if s >= least and s > times_others * most]
    if not enough:
        return None
    longest, what = max(enough)
    return Starved(what, longest, window.seconds, window.host)


def _held_back(
    window: HostWindow, job_id: str, inside: Collection[int] = (), outside: Collection[int] = ()
) -> Iterator[float]:
    """How long control groups were throttled that hold ranks of the job: none but those `inside`, or none `outside`."""
    before = {group.path: group.throttled_seconds for group in window.before.cgroups or ()}
    for group in window.now.cgroups or ():
        ranks, then = _ranks(group, job_id), before.get(group.path)
        if not ranks or then is None or group.throttled_seconds is None:
            continue
        if (inside and ranks <= set(inside)) or (outside and not ranks & set(outside)):
            yield max(group.throttled_seconds - then, 0.0)


def _ranks(group: CgroupSample, job_id: str) -> set[int]:
    return {rank for job, rank in group.ranks if job == job_id}
