"""Diagnose a job that fails again and again without progress: how often, and what repeats from start to start.

A launcher that restarts its ranks in place, and a supervisor that starts the launcher anew, both make such a loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from zmon.detectors.endings.limits import EndLimits
from zmon.detectors.new_finding import drain, new_finding
from zmon.format import counted, duration, listed
from zmon.job.restarts import (
    RESTART_GAP_SECONDS,
    ended_well,
    has_left,
    is_over,
    launch_began,
    launch_end,
    without_progress,
)
from zmon.schema.ended_launch import LaunchEnd
from zmon.schema.evidence import StallEvidence
from zmon.schema.finding import Finding
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.names import LOCK, STALL

_MAX_ENDS = 10  # in the evidence; people compare the last ones


@dataclass(frozen=True)
class _Repetition:
    """The properties that all ends of a loop share; empty or None if they differ."""

    ranks: tuple[int, ...]
    hosts: tuple[str, ...]
    step: int | None
    error: str
    never_stepped: bool

    @classmethod
    def of(cls, loop: Sequence[LaunchEnd]) -> _Repetition:
        """Return the repetition of a loop. A rank or host counts as repeated if it is a culprit of every end."""
        first = loop[0]
        return cls(
            ranks=tuple(rank for rank in first.ranks if all(rank in end.ranks for end in loop)),
            hosts=tuple(host for host in dict.fromkeys(first.hosts) if all(host in end.hosts for end in loop)),
            step=first.step if all(end.step == first.step for end in loop) else None,
            error=first.error if all(end.error == first.error for end in loop) else "",
            never_stepped=all(end.steps == 0 for end in loop),
        )


def crash_loop_finding(snapshot: Snapshot, fault: Finding | None, limits: EndLimits) -> Finding | None:
    """Return a finding if the job's last starts failed without progress; None if they are too few.

    `fault` is the finding about this launch, None if there is none. If the launch lives, it belongs to the loop until
    it makes progress itself.
    """
    ends = snapshot.earlier_ends
    if fault is not None and is_over(snapshot):
        ends = (*ends, launch_end(snapshot, fault))
    elif not ends or not _belongs_to(ends, snapshot):
        return None
    loop = without_progress(ends)
    if len(loop) < limits.num_loop_starts:
        return None
    repeated = _Repetition.of(loop)
    finding = new_finding(
        snapshot,
        detector=STALL,
        cause="crash_loop",
        severity="critical",
        proof=LOCK,
        culprits=[r for r in snapshot.reported_ranks if r.rank in repeated.ranks],
        hosts=repeated.hosts,
        seconds_ago=snapshot.time - loop[0].ended,
        stalled=True,
        confidence=0.95 if repeated.step is not None or repeated.error else 0.8,
        summary=_summary(loop, repeated) + _outlook(snapshot),
        detail=_next_steps(repeated),
        evidence=StallEvidence(num_starts=len(loop), ends=loop[-_MAX_ENDS:]),
        lasting_fault=f"crash_loop|{loop[0].start}",
    )
    return replace(finding, step=max(end.step for end in loop))


def _belongs_to(ends: Sequence[LaunchEnd], snapshot: Snapshot) -> bool:
    """Return True if a launch that no fault has ended is the next one after these ends, and has made no progress."""
    if launch_began(snapshot) - ends[-1].ended > RESTART_GAP_SECONDS or has_left(ends, snapshot):
        return False
    return not ended_well(snapshot)


def _summary(loop: Sequence[LaunchEnd], repeated: _Repetition) -> str:
    """Return how often the job failed in how much time, and what repeats."""
    seconds = loop[-1].ended - loop[0].began
    starts = f"{counted(len(loop), 'start')} in {duration(seconds)} failed without progress"
    return f"{starts}: {_step_text(loop, repeated)}{_culprit_text(loop, repeated)}{_error_text(loop, repeated)}"


def _step_text(loop: Sequence[LaunchEnd], repeated: _Repetition) -> str:
    if repeated.never_stepped:
        return "each ended before its first step"
    if repeated.step is not None:
        return f"each ended at step {repeated.step}"
    steps = sorted({end.step for end in loop})
    return f"they ended at steps {steps[0]} to {steps[-1]}"


def _culprit_text(loop: Sequence[LaunchEnd], repeated: _Repetition) -> str:
    """Return who ended the starts, and who differs from start to start."""
    where = f" on {listed(list(repeated.hosts), 4)}" if repeated.hosts else ""
    if repeated.ranks:
        who = f" by rank{'s' if len(repeated.ranks) > 1 else ''} {listed([str(rank) for rank in repeated.ranks])}"
        return who + (where or ", on another host each time")
    if not any(end.ranks for end in loop):
        return where
    return f", by other ranks each time, all{where}" if where else ", by another rank each time"


def _error_text(loop: Sequence[LaunchEnd], repeated: _Repetition) -> str:
    if repeated.error:
        return f": {repeated.error}"
    errors = [end.error for end in loop if end.error]
    return f"; the errors differ, the last was {errors[-1]}" if errors else ""


def _outlook(snapshot: Snapshot) -> str:
    """Return how many restarts the launcher has left, for the summary; empty if there is none."""
    first = snapshot.reported_ranks[0]
    left = (first.max_restarts or 0) - first.restart_count
    if left <= 0:
        return ""
    return f"; the launcher has {counted(left, 'restart')} left, which will most likely fail as well"


def _next_steps(repeated: _Repetition) -> str:
    """Return the advice that fits what repeats: a rank, a host, a step, or nothing."""
    stop = "Stop the launcher or its supervisor first: each start costs GPU time and changes nothing."
    if repeated.never_stepped:
        return (
            f"{stop} The job never reached a step, so look at what it reads before: its configuration, its paths, the "
            "checkpoint that it resumes, and the rendezvous."
        )
    if len(repeated.hosts) == 1 and not repeated.ranks:
        host = repeated.hosts[0]
        return f"{stop} Only the host repeats: take it out ({drain(host)}), and read its `dmesg -T | tail -50`."
    if repeated.step is not None:
        return (
            f"{stop} The step repeats, so look at what belongs to step {repeated.step}: its data (a bad sample or "
            "shard), a scheduled evaluation or save, or memory that grows until then."
        )
    if repeated.ranks:
        return (
            f"{stop} The rank repeats and the step does not: look at its data, then at its device and host. Start the "
            "job with the host left out; if the rank fails elsewhere too, it is not the host."
        )
    return f"{stop} Neither rank nor step repeats: look at what all ranks share, such as storage, memory and network."
