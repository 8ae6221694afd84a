"""Report ranks whose process is stopped, or sleeps in the kernel for too long. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from zmon.detectors.hangs.limits import HangLimits
from zmon.detectors.hangs.silence import judge, places_text
from zmon.detectors.new_finding import drain, new_finding
from zmon.detectors.wording import ranks_on
from zmon.schema.evidence import StallEvidence
from zmon.schema.finding import Finding
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.names import PROCESS_STATE, SILENCE, STALL, Severity
from zmon.schema.rank import FROZEN, RankState

# A signal reaches all processes of a job within this time. The agents look ten times a second.
_AT_ONCE_SECONDS = 1.0


class _Freeze(NamedTuple):
    """The state of frozen processes, as their finding reports it."""

    severity: Severity
    proof: str
    seconds_ago: float
    confidence: float
    summary: str
    reason: str  # the end of the summary: why the severity is what it is; may be empty
    detail: str
    evidence: StallEvidence


class _Purpose(NamedTuple):
    """Somebody seems to have stopped processes on purpose; for `patience_seconds` that is no fault."""

    reason: str
    patience_seconds: float


def frozen_finding(snapshot: Snapshot, limits: HangLimits) -> Finding | None:
    """Return a finding about stopped ranks, else about ranks past their lease in uninterruptible sleep."""
    stopped = [r for r in snapshot.ranks if (r.stopped_seconds or 0.0) >= limits.stopped_seconds]
    sleeping = [r for r in snapshot.ranks if (r.blocked_seconds or 0.0) >= limits.blocked_seconds]
    if stopped:
        frozen = [r for r in stopped if r.activity != "done"]
    else:
        frozen = [r for r in sleeping if r.activity != "done" and r.overdue_seconds > 0]
    if not frozen:
        return None
    freeze = _judge_stopped(snapshot, frozen, limits) if stopped else _judge_sleeping(snapshot, frozen, limits)
    first = frozen[0]
    return new_finding(
        snapshot,
        detector=STALL,
        cause="rank_frozen",
        severity=freeze.severity,
        proof=freeze.proof,
        culprits=frozen,
        seconds_ago=freeze.seconds_ago,
        stalled=True,
        confidence=freeze.confidence,
        summary=f"{ranks_on(frozen)} froze at step {first.step} during {first.activity}: {freeze.summary}; "
        f"{_waiting_text(snapshot, frozen)}{places_text(snapshot, frozen)}{freeze.reason}",
        detail=freeze.detail,
        evidence=freeze.evidence,
    )


def _judge_stopped(snapshot: Snapshot, stopped: Sequence[RankState], limits: HangLimits) -> _Freeze:
    """Judge processes that a signal, a debugger or the freezer has stopped: they go on only if somebody lets them."""
    first = stopped[0]
    seconds_ago = max(r.stopped_seconds or 0.0 for r in stopped)
    purpose = _purpose(snapshot, stopped, limits)
    is_patient = purpose is not None and seconds_ago < purpose.patience_seconds
    if first.process_state == FROZEN:
        summary = f"the control group of process {first.pid} has been frozen for {seconds_ago:.1f} s"
        detail = (
            f"On {first.host}: `cat /proc/{first.pid}/cgroup` shows the group. Let it go on with `docker unpause`, "
            "or write THAWED into its `freezer.state` (v1) or 0 into its `cgroup.freeze` (v2)."
        )
    else:
        summary = f"process {first.pid} has been stopped (state {first.process_state}) for {seconds_ago:.1f} s"
        detail = (
            f"On {first.host}: `ps -o pid,stat,wchan:32,cmd -p {first.pid}`. If it was stopped by mistake or by a "
            f"debugger: `kill -CONT {first.pid}`. If it stops again, end the job and find out which process sends "
            "the signal."
        )
    return _Freeze(
        severity="warning" if is_patient else "critical",
        proof=SILENCE if purpose else PROCESS_STATE,  # whoever stopped it on purpose may let it go on
        seconds_ago=seconds_ago,
        confidence=0.97,
        summary=summary,
        reason=purpose.reason if purpose and is_patient else "",
        detail=detail,
        evidence=StallEvidence(pids=tuple(r.pid for r in stopped)),
    )


def _judge_sleeping(snapshot: Snapshot, sleeping: Sequence[RankState], limits: HangLimits) -> _Freeze:
    """Judge processes in uninterruptible sleep by their silence: slow storage may answer at any moment."""
    first = sleeping[0]
    seconds_ago = max(r.step_seconds for r in sleeping)
    severity, silence = judge(snapshot, sleeping, limits)
    return _Freeze(
        severity=severity,
        proof=silence.proof,
        seconds_ago=seconds_ago,
        confidence=0.8,
        summary=f"process {first.pid} is in uninterruptible sleep (state D), no step for {seconds_ago:.1f} s",
        reason=f"; {silence.reason}",
        detail=f"On {first.host}: `cat /proc/{first.pid}/wchan /proc/{first.pid}/stack; dmesg -T | tail -50`. It "
        "waits for storage or a driver. If that lasts longer than a minute, take the host out "
        f"({drain(first.host)}) and start the job elsewhere.",
        evidence=StallEvidence(pids=tuple(r.pid for r in sleeping), silence=silence),
    )


def _purpose(snapshot: Snapshot, stopped: Sequence[RankState], limits: HangLimits) -> _Purpose | None:
    """Return why somebody seems to have stopped these ranks on purpose; None if nobody seems to have.

    A scheduler suspends all ranks of a launch at once (`scontrol suspend`, gang scheduling), and so does Ctrl-Z, or
    whoever pauses their container. A debugger holds one process in state t (ptrace(2)).
    """
    if _are_suspended(snapshot, stopped):
        reason = "; all ranks there were stopped at once, as a scheduler or Ctrl-Z suspends them"
        return _Purpose(reason, limits.moving_at_most_seconds)
    if all(r.process_state == "t" for r in stopped):
        return _Purpose("; a debugger or tracer holds it", limits.critical_at_most_seconds)
    return None


def _are_suspended(snapshot: Snapshot, stopped: Sequence[RankState]) -> bool:
    """Return True if these are all living ranks of their hosts, more than one, and were stopped at once."""
    hosts = {r.host for r in stopped}
    living = [r for r in snapshot.unfinished_ranks if r.host in hosts]
    ages = [r.stopped_seconds or 0.0 for r in stopped]
    are_all = len(stopped) > 1 and len(stopped) == len(living)
    return are_all and max(ages) - min(ages) <= _AT_ONCE_SECONDS


def _waiting_text(snapshot: Snapshot, frozen: Sequence[RankState]) -> str:
    """Return how many of the other ranks wait, and in which collectives."""
    culprits = {r.rank for r in frozen}
    ops = [r.in_flight.op for r in snapshot.ranks if r.in_flight and r.rank not in culprits]
    if not ops:
        return "no rank waits for it yet"
    return f"{len(ops)} of {snapshot.world_size - len(frozen)} others wait in {', '.join(sorted(set(ops)))}"
