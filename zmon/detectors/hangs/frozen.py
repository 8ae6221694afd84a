"""Report ranks whose process is stopped, or sleeps in the kernel for too long. Pure."""

from __future__ import annotations

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


def frozen_finding(snapshot: Snapshot, limits: HangLimits) -> Finding | None:
    """Return a finding about stopped ranks, else about ranks past their lease in uninterruptible sleep."""
    stopped = [r for r in snapshot.ranks if (r.stopped_seconds or 0.0) >= limits.stopped_seconds]
    sleeping = [r for r in snapshot.ranks if (r.blocked_seconds or 0.0) >= limits.blocked_seconds]
    frozen = [r for r in stopped or sleeping if r.activity != "done" and (stopped or r.overdue_seconds > 0)]
    if not frozen:
        return None
    first = frozen[0]
    severity: Severity = "critical"
    evidence, reason = StallEvidence(pids=tuple(r.pid for r in frozen)), ""
    if stopped:  # a stopped process goes on only if somebody wakes it
        seconds_ago = max(r.stopped_seconds or 0.0 for r in frozen)
        reason, believed_seconds = _purpose(snapshot, frozen, limits)
        proof = SILENCE if reason else PROCESS_STATE  # whoever stopped it on purpose may let it go on
        if reason and seconds_ago < believed_seconds:
            severity = "warning"
        else:
            reason = ""
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
    else:  # storage that is slow may answer at any moment
        severity, silence = judge(snapshot, frozen, limits)
        evidence = StallEvidence(pids=evidence.pids, silence=silence)
        seconds_ago, reason, proof = max(r.step_seconds for r in frozen), f"; {silence.reason}", silence.proof
        summary = f"process {first.pid} is in uninterruptible sleep (state D), no step for {seconds_ago:.1f} s"
        detail = (
            f"On {first.host}: `cat /proc/{first.pid}/wchan /proc/{first.pid}/stack; dmesg -T | tail -50`. It "
            "waits for storage or a driver. If that lasts longer than a minute, take the host out "
            f"({drain(first.host)}) and start the job elsewhere."
        )
    return new_finding(
        snapshot,
        detector=STALL,
        cause="rank_frozen",
        severity=severity,
        proof=proof,
        culprits=frozen,
        seconds_ago=seconds_ago,
        stalled=True,
        confidence=0.97 if stopped else 0.8,
        summary=f"{ranks_on(frozen)} froze at step {first.step} during {first.activity}: {summary}; "
        f"{_waiting_text(snapshot, frozen)}{places_text(snapshot, frozen)}{reason}",
        detail=detail,
        evidence=evidence,
    )


def _purpose(snapshot: Snapshot, stopped: list[RankState], limits: HangLimits) -> tuple[str, float]:
    """Return who seems to have stopped these ranks on purpose, and for how long that is no fault; empty if nobody.

    A scheduler suspends all ranks of a launch at once (`scontrol suspend`, gang scheduling), and so does Ctrl-Z, or
    whoever pauses their container. A debugger holds one process in state t (ptrace(2)).
    """
    if _are_suspended(snapshot, stopped):
        suspended = "; all ranks there were stopped at once, as a scheduler or Ctrl-Z suspends them"
        return suspended, limits.moving_at_most_seconds
    if all(r.process_state == "t" for r in stopped):
        return "; a debugger or tracer holds it", limits.critical_at_most_seconds
    return "", 0.0


def _are_suspended(snapshot: Snapshot, stopped: list[RankState]) -> bool:
    """Return True if these are all living ranks of their hosts, more than one, and were stopped at once."""
    hosts = {r.host for r in stopped}
    living = [r for r in snapshot.ranks if r.alive and r.activity != "done" and r.host in hosts]
    since = [r.stopped_seconds or 0.0 for r in stopped]
    return len(living) == len(stopped) > 1 and max(since) - min(since) <= _AT_ONCE_SECONDS


def _waiting_text(snapshot: Snapshot, frozen: list[RankState]) -> str:
    culprits = {r.rank for r in frozen}
    ops = [r.in_flight.op for r in snapshot.ranks if r.in_flight and r.rank not in culprits]
    if not ops:
        return "no rank waits for it yet"
    return f"{len(ops)} of {snapshot.world_size - len(frozen)} others wait in {', '.join(sorted(set(ops)))}"
