"""Report a job that has been slower than its baseline for a while.

The job is compared with its own baseline, never with another job. A step with more tokens or operations than a step of
the baseline may take longer in proportion. The job must declare them: operations that zmon counts follow the samples.
The cause is the part of a step that grew most: the exposed time while the self time stayed (network), the wait for data
(input), the self time on hosts that swap (memory). The finding has no culprit. If another detector names one, this
finding is suppressed (zmon/detectors/suppression.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from msgspec import UNSET

from zmon.detectors.new_finding import new_finding
from zmon.detectors.wording import verb
from zmon.job.baseline import for_work_of, is_comparable, step_window, work_growth
from zmon.job.columns import middle
from zmon.schema.aligned_step import AlignedStep, Baseline, StepWindow
from zmon.schema.evidence import SlowdownEvidence
from zmon.schema.finding import Finding
from zmon.schema.host import HostWindow
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.names import STEPS
from zmon.schema.thresholds import Multiple, Share, Thresholds

_SHOWN_GROWTH = 1.05  # of work, which changes a little from step to step
_PART_NAMES = {
    "exposed": "the exposed time in collectives",
    "data": "the wait for data",
    "own": "the ranks' self time",
    "late": "the delay of the slowest rank",
}
_NEXT = {
    "network": "All ranks wait longer for the same collectives. Is there other traffic on these links, a fault of a "
    "switch, a link that came back slower (`ethtool`, `ibstat`)? `zmon_nic_transmit_bytes_total` and "
    "`zmon_tcp_retransmitted_segments_total` show each host.",
    "input": "Check the storage (`zmon_host_pressure_seconds_total`, resource io; which other jobs read from it?), the "
    "workers of the loader, and changes of the data: longer samples, another source.",
    "memory": "Which process grew? `zmon_process_resident_bytes` shows the ranks, `ps --sort -rss` on the host shows "
    "loader workers and other processes. End the processes that do not belong there, or give the job more memory.",
    "unknown": "Compare `zmon_phase_seconds_total` and `zmon_collective_exposed_seconds_total` before and after. Did "
    "the job change (batch size, sequence length, logging), do other jobs run on its hosts, are clocks lowered?",
}
_LONGER_INPUT = (
    " Longer inputs, as in a curriculum, look the same, because the job does not declare its tokens: with "
    "`zmon.work(tokens=…)` a step is compared for as much work."
)


@dataclass(frozen=True)
class Slowdown(Thresholds):
    """The detector `slowdown`."""

    # The job is slow if its step time is at least this many times the baseline for as much work. Each minute of work
    # then takes 18 s longer, and chance does not last that long.
    slow_ratio: Multiple = 1.3
    # The slowdown is over if the step time is less than this many times the baseline. The value is halfway between the
    # baseline and `slow_ratio`.
    over_ratio: Multiple = 1.15
    # The slow steps must cover this time. A cold cache, another job's start or another job's checkpoint passes sooner.
    lasting_seconds: float = 30.0
    # There must be at least this many slow steps. Fewer give no useful median, however long they take.
    num_steps: int = 20
    # The median of this many newest steps must still be at least `over_ratio`. Otherwise the slowdown has just ended.
    num_recent_steps: int = 10
    # A host is short of memory if some process waited for memory for at least this share of the last minute (PSI).
    memory_ratio: Share = 0.1
    # A host is also short of memory if at least this share of its memory was swapped out within the last minute.
    swapped_ratio: Share = 0.01
    # The network is not named as the cause if, on some host, a process waited for a core for at least this share of the
    # last minute (PSI). Collectives wait for cores too.
    processor_ratio: Share = 0.3
    name = "slowdown"
    separate = False
    causes = ("network", "input", "memory", "unknown")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.over_ratio > self.slow_ratio:
            raise ValueError(f"over_ratio is {self.over_ratio:g}, more than slow_ratio, {self.slow_ratio:g}")

    def can_resolve(self, snapshot: Snapshot, finding: Finding) -> bool:
        """Return True once the job has a baseline that is not slow itself.

        A hub that has restarted learns the baseline again, and may learn it from the slow steps of the same launch.
        """
        evidence = finding.evidence_of(SlowdownEvidence)
        baseline = snapshot.baseline
        if baseline is None:
            return False
        earlier = evidence.baseline_seconds
        is_slower = earlier is not UNSET and baseline.seconds >= self.over_ratio * earlier
        same_launch = evidence.run_uid in {r.run_uid for r in snapshot.reported_ranks}
        same_size = evidence.world_size == snapshot.world_size and evidence.samples == baseline.samples
        return not (is_slower and same_launch and same_size)

    def inert_reason(self, snapshot: Snapshot) -> str | None:
        """Return a reason until a baseline is learned."""
        return None if snapshot.baseline else "it has taken too few steps to have a baseline"

    def detect(self, snapshot: Snapshot) -> tuple[Finding, ...]:
        """Return at most one finding, about the job."""
        baseline = snapshot.baseline
        if baseline is None or not any(r.alive for r in snapshot.ranks):
            return ()
        slow = list(self._slow_windows(snapshot.step_windows, baseline))
        recent = self._recent_windows(slow)
        if not recent or median(_slowness(window, baseline) for window in recent) < self.slow_ratio:
            return ()
        if _slowness(step_window(snapshot.steps[-self.num_recent_steps :]), baseline) < self.over_ratio:
            return ()
        return (self._finding(snapshot, baseline, slow, recent),)

    def _finding(
        self, snapshot: Snapshot, baseline: Baseline, slow: Sequence[StepWindow], recent: Sequence[StepWindow]
    ) -> Finding:
        """Return the finding about all slow windows; the recent ones among them have the present step time."""
        now = sorted(recent, key=lambda window: _slowness(window, baseline))[len(recent) // 2]
        expected = for_work_of(now, baseline)
        slow_steps = _newest(snapshot.steps, sum(window.num_steps for window in slow))
        growth = _growth(slow_steps, now, expected)
        cause, reason = self._cause(snapshot, growth, now, expected)
        work = work_growth(now, baseline)
        more_work = f" for {work:.2f} × the work" if work >= _SHOWN_GROWTH else ""
        slow_seconds = sum(window.seconds * window.num_steps for window in slow)
        return new_finding(
            snapshot,
            detector=self.name,
            cause=cause,
            severity="warning",
            proof=STEPS,
            seconds_ago=slow_seconds,
            confidence=0.4 if cause == "unknown" else 0.7,
            lost_ratio=1 - expected.seconds / now.seconds,
            summary=f"a step takes {now.seconds / expected.seconds:.2f} × the baseline{more_work} (threshold "
            f"{self.slow_ratio:g} ×): {now.seconds * 1000:.1f} ms against {expected.seconds * 1000:.1f} ms, for "
            f"{slow_seconds:.0f} s; {reason}",
            detail=_NEXT[cause] + (_LONGER_INPUT if cause == "unknown" and now.tokens is None else ""),
            evidence=SlowdownEvidence(
                baseline_seconds=baseline.seconds,
                samples=baseline.samples,
                world_size=snapshot.world_size,
                run_uid=min(r.run_uid for r in snapshot.reported_ranks),
                grew_seconds={part: round(seconds, 6) for part, seconds in growth.items()},
                pressure={w.host: pressure for w in snapshot.hardware if (pressure := w.pressure_ratio)},
            ),
        )

    def _slow_windows(self, windows: Sequence[StepWindow], baseline: Baseline) -> Iterator[StepWindow]:
        """Yield the slow step windows, newest first, until one that is not slow."""
        for window in reversed(windows):
            if not is_comparable(window, baseline) or _slowness(window, baseline) < self.over_ratio:
                return
            yield window

    def _recent_windows(self, slow: Sequence[StepWindow]) -> Sequence[StepWindow]:
        """Return the newest slow windows that are long enough together; none if the slowdown is too short.

        There must be two, because a single one may stand for steps that no agent reported.
        """
        seconds = 0.0
        num_steps = 0
        for number, window in enumerate(slow, 1):
            seconds += window.seconds * window.num_steps
            num_steps += window.num_steps
            if number > 1 and seconds >= self.lasting_seconds and num_steps >= self.num_steps:
                return slow[:number]
        return ()

    def _cause(
        self, snapshot: Snapshot, growth: Mapping[str, float], now: StepWindow, baseline: Baseline
    ) -> tuple[str, str]:
        """Return the cause and the reason for the summary, from the part of the step that grew most."""
        part = max(growth, key=lambda p: growth[p])
        reason = f"{_PART_NAMES[part]} grew most, by {growth[part] * 1000:.1f} ms"
        if part != "exposed" and (short_hosts := [w.host for w in snapshot.hardware if self._is_short_of_memory(w)]):
            return "memory", f"{reason}, and {', '.join(short_hosts)} {verb(short_hosts, 'is', 'are')} short of memory"
        busy = [w.host for w in snapshot.hardware if w.pressure_ratio.get("cpu", 0.0) >= self.processor_ratio]
        if part == "data":
            return "input", reason
        if part == "exposed" and not busy and now.self_seconds < self.over_ratio * baseline.self_seconds:
            return "network", f"{reason}, while the ranks' self time did not grow"
        return "unknown", reason + (f"; processes wait for a core on {', '.join(busy)}" if busy else "")

    def _is_short_of_memory(self, window: HostWindow) -> bool:
        """Return True if processes of the host waited for memory, or much memory was swapped out; see the ratios."""
        then, now = window.before.load, window.now.load
        if then is None or now is None:
            return False
        swapped = now.swap_used_bytes - then.swap_used_bytes
        waited_ratio = window.pressure_ratio.get("memory", 0.0)
        return waited_ratio >= self.memory_ratio or swapped >= self.swapped_ratio * now.memory_total_bytes


def _slowness(window: StepWindow, baseline: Baseline) -> float:
    """Return how many times as long as in the baseline a step takes, for as much work."""
    return window.seconds / for_work_of(window, baseline).seconds


def _newest(steps: Sequence[AlignedStep], num_steps: int) -> Sequence[AlignedStep]:
    """Return the newest steps that together stand for this many steps, or all steps; the others were not slow yet."""
    stood_for = 0
    for number, step in enumerate(reversed(steps), 1):
        stood_for += step.stands_for
        if stood_for >= num_steps:
            return steps[-number:]
    return steps


def _growth(steps: Sequence[AlignedStep], now: StepWindow, baseline: Baseline) -> dict[str, float]:
    """Return the seconds by which each part of the step has grown, given the slow steps.

    - `own`: the self time of the median rank, without its wait for data
    - `data`: the median rank's wait for data
    - `late`: the time of the critical rank beyond the median rank
    - `exposed`: the exposed time

    If the critical rank is late because it waits for data, the time in `late` belongs to `data`: slow batches that hit
    a different rank in each step are the input's fault.
    """
    late = (now.seconds - now.self_seconds - now.exposed_seconds) - (
        baseline.seconds - baseline.self_seconds - baseline.exposed_seconds
    )
    late_is_data = median(map(_late_data_ratio, steps)) > 0.5
    data = now.data_seconds - baseline.data_seconds
    return {
        "exposed": now.exposed_seconds - baseline.exposed_seconds,
        "data": data + (late if late_is_data else 0.0),
        "own": now.self_seconds - baseline.self_seconds - data,
        "late": 0.0 if late_is_data else late,
    }


def _late_data_ratio(step: AlignedStep) -> float:
    """Return the share of the critical rank's time beyond the median rank that is a wait for data."""
    late = step.self_seconds[step.critical_rank] - middle(step.self_seconds)
    data = step.phases.get("data")
    return (data[step.critical_rank] - middle(data)) / late if data and late > 0 else 0.0
