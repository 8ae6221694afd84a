"""Is the whole job slower than it used to be, and has been for a while?

Held against its own baseline, never against another job. The cause is the part of a step that grew most: what its
ranks exposed of their collectives while their own time stayed (network), the wait for data (input), their own time on
hosts that swap (memory). Nobody is named here: where another detector names somebody for it, that is said instead
(zmon/detectors/suppression.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median, median_low

from msgspec import UNSET

from zmon.detectors.parts.pressure import waited_ratio
from zmon.detectors.parts.verdict import verdict
from zmon.job.baseline import is_comparable, step_window
from zmon.schema.aligned_step import AlignedStep, Baseline, StepWindow
from zmon.schema.evidence import Evidence
from zmon.schema.finding import Finding
from zmon.schema.host import HostWindow
from zmon.schema.snapshot import Snapshot
from zmon.schema.thresholds import Part, Thresholds, Times


@dataclass(frozen=True)
class Slowdown(Thresholds):
    """Thresholds."""

    slow_ratio: Times = 1.3  # to the baseline: a minute of it costs 18 s, and chance does not keep it up
    over_ratio: Times = 1.15  # halfway: below it, it is over
    lasting_seconds: float = 30.0  # of steps: a cold cache, another job's start or its checkpoint pass sooner
    num_steps: int = 20  # fewer have no median to speak of, however long they are
    num_recent_steps: int = 10  # of which the median still is slow: else it has just ended
    memory_ratio: Part = 0.1  # of the last minute some process of the host waited for memory (PSI)
    swapped_ratio: Part = 0.01  # of the host's memory, swapped out within the last minute
    processor_ratio: Part = 0.3  # of the last minute some process waited for a core: then collectives wait for one too
    name = "slowdown"
    separate = False
    causes = ("network", "input", "memory", "unknown")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.over_ratio > self.slow_ratio:
            raise ValueError(f"over_ratio is {self.over_ratio:g}, more than slow_ratio, {self.slow_ratio:g}")

    def sees(self, snapshot: Snapshot, finding: Finding) -> bool:
        """Once a baseline is known, unless a hub that began anew has taken the slowness of this start for it."""
        evidence, now = finding.evidence, snapshot.baseline
        known = evidence.baseline_seconds
        began_anew = known is not UNSET and now is not None and now.seconds >= self.over_ratio * known
        same = evidence.run_uid in {r.run_uid for r in snapshot.reported_ranks}
        same = same and evidence.world_size == snapshot.world_size
        same = same and now is not None and evidence.samples == now.samples
        return now is not None and not (began_anew and same)

    def inert(self, snapshot: Snapshot) -> str | None:
        """Until a baseline is learned."""
        return None if snapshot.baseline else "it has not taken steps enough to know what a good one is like"

    def detect(self, snapshot: Snapshot) -> tuple[Finding, ...]:
        """At most one, about the job."""
        good = snapshot.baseline
        if good is None or not any(r.alive for r in snapshot.ranks):
            return ()
        slow = list(self._slow(snapshot.step_windows, good))
        lately = self._lately(slow)
        if not lately or median(s.seconds for s in lately) < self.slow_ratio * good.seconds:
            return ()
        if step_window(snapshot.steps[-self.num_recent_steps :]).seconds < self.over_ratio * good.seconds:
            return ()
        now = sorted(lately, key=lambda s: s.seconds)[len(lately) // 2]
        cause, says = self._cause(snapshot, now, good)
        lasted = sum(s.seconds * s.num_steps for s in slow)
        found = verdict(
            snapshot,
            detector=self.name,
            cause=cause,
            severity="warning",
            culprits=(),
            seconds_ago=lasted,
            confidence=0.4 if cause == "unknown" else 0.7,
            stalled=False,
            lost_ratio=1 - good.seconds / now.seconds,
            summary=f"a step takes {now.seconds / good.seconds:.2f} × what it did while the job was well (threshold "
            f"{self.slow_ratio:g} ×): {now.seconds * 1000:.1f} ms against {good.seconds * 1000:.1f} ms, for "
            f"{lasted:.0f} s; {says}",
            detail=_NEXT[cause],
            evidence=Evidence(
                baseline_seconds=good.seconds,
                samples=good.samples,
                world_size=snapshot.world_size,
                run_uid=min(r.run_uid for r in snapshot.reported_ranks),
                grew_seconds={part: round(seconds, 6) for part, seconds in _grown(snapshot, now, good).items()},
                pressure={w.host: pressure for w in snapshot.hardware if (pressure := waited_ratio(w))},
            ),
        )
        return (found,)

    def _slow(self, step_windows: Sequence[StepWindow], good: Baseline) -> Iterator[StepWindow]:
        """The newest, until one that was not slow; newest first."""
        for one in reversed(step_windows):
            if not is_comparable(one, good) or one.seconds < self.over_ratio * good.seconds:
                return
            yield one

    def _lately(self, slow: Sequence[StepWindow]) -> Sequence[StepWindow]:
        """As many as must be slow; none: it has not lasted. A single one may stand for steps that nobody saw."""
        seconds, num_steps = 0.0, 0
        for number, one in enumerate(slow, 1):
            seconds += one.seconds * one.num_steps
            num_steps += one.num_steps
            if number > 1 and seconds >= self.lasting_seconds and num_steps >= self.num_steps:
                return slow[:number]
        return ()

    def _cause(self, snapshot: Snapshot, now: StepWindow, good: Baseline) -> tuple[str, str]:
        """The part that grew most, in one word and in many."""
        grown = _grown(snapshot, now, good)
        part = max(grown, key=lambda p: grown[p])
        grew = f"{_SAYS[part]} grew most, by {grown[part] * 1000:.1f} ms"
        if part != "exposed" and (short := [w.host for w in snapshot.hardware if self._short_of_memory(w)]):
            return "memory", f"{grew}, and {', '.join(short)} is short of memory"
        busy = [w.host for w in snapshot.hardware if waited_ratio(w).get("cpu", 0.0) >= self.processor_ratio]
        if part == "data":
            return "input", grew
        if part == "exposed" and not busy and now.self_seconds < self.over_ratio * good.self_seconds:
            return "network", f"{grew}, while the ranks' own time stayed"
        return "unknown", grew + (f"; processes wait for a core on {', '.join(busy)}" if busy else "")

    def _short_of_memory(self, window: HostWindow) -> bool:
        then, now = window.before.load, window.now.load
        if then is None or now is None:
            return False
        swapped = now.swap_used_bytes - then.swap_used_bytes
        waits = waited_ratio(window).get("memory", 0.0)
        return waits >= self.memory_ratio or swapped >= self.swapped_ratio * now.memory_total_bytes


def _grown(snapshot: Snapshot, now: StepWindow, good: Baseline) -> dict[str, float]:
    """By how much each part of the step: of the median rank, the last arriver beyond it, the collectives beyond both.

    What the last arriver is late by is data where that is what it waits for: slow batches that strike another rank in
    each step are the input's.
    """
    late = (now.seconds - now.self_seconds - now.exposed_seconds) - (
        good.seconds - good.self_seconds - good.exposed_seconds
    )
    of_data = median(map(_late_for_data, snapshot.steps)) > 0.5
    data = now.data_seconds - good.data_seconds
    return {
        "exposed": now.exposed_seconds - good.exposed_seconds,
        "data": data + (late if of_data else 0.0),
        "own": now.self_seconds - good.self_seconds - data,
        "late": 0.0 if of_data else late,
    }


def _late_for_data(step: AlignedStep) -> float:
    """What part of the last arriver's time beyond the median rank's is spent waiting for data."""
    last = step.critical_rank
    late = step.self_seconds[last] - median_low(step.self_seconds)
    data = step.phases.get("data")
    return (data[last] - median_low(data)) / late if data and late > 0 else 0.0


_SAYS = {
    "exposed": "the time in collectives that nothing hides",
    "data": "the wait for data",
    "own": "the ranks' own time",
    "late": "what one rank or another is late by",
}
_NEXT = {
    "network": "All ranks wait longer for the same exchange. Other traffic on these links, a switch, a link that came "
    "back slower (`ethtool`, `ibstat`)? `zmon_nic_transmit_bytes_total` and "
    "`zmon_tcp_retransmitted_segments_total` show each host.",
    "input": "Look at the storage (`zmon_host_pressure_seconds_total`, resource io; who else reads from it?), at the "
    "loader's workers, and at what changed in the data: longer samples, another source.",
    "memory": "Who grew? `zmon_process_resident_bytes` shows the ranks, `ps --sort -rss` on the host loader workers "
    "and other processes. End what does not belong there, or give the job more memory.",
    "unknown": "Compare `zmon_phase_seconds_total` and `zmon_collective_exposed_seconds_total` before and after. Did "
    "the job change (batch size, sequence length, logging), do other jobs run on its hosts, are clocks lowered?",
}
