"""Diagnose the end of a job: which rank ended first, why, and whether the launcher will restart the job."""

from __future__ import annotations

from dataclasses import dataclass

from zmon.detectors.parts.awaited_ranks import Mismatch
from zmon.detectors.parts.deaths import Death, culprits, deaths, ended_ranks, gone_seconds, hung_ranks
from zmon.detectors.parts.memory import out_of_memory
from zmon.detectors.parts.new_finding import drain, new_finding
from zmon.detectors.parts.size_mismatch import fatal_mismatch
from zmon.detectors.parts.wording import ranks_on
from zmon.schema.evidence import Evidence
from zmon.schema.finding import Finding
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.names import Severity
from zmon.schema.rank import RankState
from zmon.schema.thresholds import Thresholds


@dataclass(frozen=True)
class Limits(Thresholds):
    """Thresholds in seconds of the part of the stall detector that judges ended ranks."""

    # The wait after a death before the dead ranks are compared. Peers die of a broken connection within 50 ms, and the
    # launcher ends the other ranks within 200 ms.
    settle_seconds: float = 0.5
    # Deaths closer together than this count as simultaneous, because the agent looks for dead ranks only every 0.1 s.
    together_seconds: float = 0.3
    # The time in which a launcher that has restarts left should have restarted the job. Until then the finding is a
    # warning, afterwards it is critical.
    restart_seconds: float = 30.0
    # The silence of an agent after which its host counts as lost if all ranks on other hosts died of broken
    # connections.
    lost_seconds: float = 5.0


def exit_finding(snapshot: Snapshot, detector: str, limits: Limits) -> Finding | None:
    """Return a finding about the death that ended the job; None if no death did, or if that is not clear yet."""
    ended, dead = ended_ranks(snapshot.ranks), deaths(snapshot.ranks)
    seconds_ago = max((gone_seconds(r) for r, _ in dead), default=0.0)
    if not dead or seconds_ago < limits.settle_seconds:
        return None
    if (mismatch := fatal_mismatch(snapshot.ranks, ended)) is not None:
        return _mismatch_finding(snapshot, detector, limits, mismatch, seconds_ago)
    culprit_ranks = culprits(dead, limits.together_seconds)
    some_unknown = snapshot.unwatched or len(ended) < len(snapshot.ranks)
    if not culprit_ranks and len(dead) == len(snapshot.ranks) and all(kind is Death.VICTIM for _, kind in dead):
        silent = {agent.host: agent.silent_seconds for agent in snapshot.agents}
        if snapshot.unwatched and all(silent.get(r.host, 0.0) >= limits.lost_seconds for r in snapshot.unwatched):
            return _lost_host_finding(snapshot, detector, limits, seconds_ago)
    if not culprit_ranks and (any(kind is Death.CANCELLED for _, kind in dead) or some_unknown):
        return None  # the owner cancelled the job, or all dead ranks are victims and the culprit is not known yet
    if not culprit_ranks:
        return _victims_finding(snapshot, detector, limits, seconds_ago)
    first = culprit_ranks[0]
    all_done = all(r.activity == "done" for r in snapshot.ranks)  # torch's teardown aborts a rank now and then
    severity, restarts = _restart_outlook(dead[0][0], seconds_ago, limits)
    memory = out_of_memory(snapshot, first)
    note = f" (process {first.pid} has not ended yet)" if first.alive else ""
    if first in hung_ranks(snapshot.ranks):
        note = " (the others had waited for it, and ended first)"
    return new_finding(
        snapshot,
        detector=detector,
        cause="rank_exited",
        severity="warning" if all_done else severity,
        culprits=culprit_ranks,
        seconds_ago=seconds_ago,
        confidence=0.95,
        summary=f"rank {first.rank} on {first.host} exited at step {first.step} during {first.activity}: "
        f"{_last_message(first)}{f' ({memory})' if memory else note}; "
        f"{'the training had finished' if all_done else restarts}",
        detail=_next_steps(first, all_done, memory),
        evidence=Evidence(last_words=first.last_words, exit_status=first.exit_status, out_of_memory=memory),
    )


def _mismatch_finding(
    snapshot: Snapshot, detector: str, limits: Limits, mismatch: Mismatch, seconds_ago: float
) -> Finding:
    severity, restarts = _restart_outlook(snapshot.ranks[0], seconds_ago, limits)
    return new_finding(
        snapshot,
        detector=detector,
        cause="collective_mismatch" if mismatch.minority else "unknown",
        severity=severity,
        culprits=mismatch.minority,
        seconds_ago=seconds_ago,
        confidence=0.9 if mismatch.minority else 0.3,
        summary=f"ranks died because they disagree about collective {mismatch.sequence} of group {mismatch.group}: "
        f"{mismatch.differences} ({ranks_on(mismatch.minority) or 'no majority, so no rank is named'}); {restarts}",
        detail="One rank entered the collective with another size, or entered another collective, and the library "
        "aborted the ranks that noticed. Find out what sets the size on that rank: a last, smaller batch, its share of "
        "a table, its split sizes. A restart will end the same way.",
        evidence=Evidence(group=mismatch.group, sequence=mismatch.sequence),
    )


def _lost_host_finding(snapshot: Snapshot, detector: str, limits: Limits, seconds_ago: float) -> Finding:
    severity, restarts = _restart_outlook(snapshot.ranks[0], seconds_ago, limits)
    hosts = sorted({r.host for r in snapshot.unwatched})
    return new_finding(
        snapshot,
        detector=detector,
        cause="host_lost",
        severity=severity,
        culprits=snapshot.unwatched,
        seconds_ago=seconds_ago,
        confidence=0.8,
        summary=f"{', '.join(hosts)} does not answer, and the {len(snapshot.ranks)} ranks elsewhere died of broken "
        f"connections at step {snapshot.ranks[0].step}; {restarts}",
        detail=f"Is the host up (`ping {hosts[0]}`, its console or BMC)? Take it out ({drain(hosts[0])}) and start the "
        "job elsewhere.",
        evidence=Evidence(hosts=tuple(hosts)),
    )


def _victims_finding(snapshot: Snapshot, detector: str, limits: Limits, seconds_ago: float) -> Finding:
    severity, restarts = _restart_outlook(snapshot.ranks[0], seconds_ago, limits)
    reason = (
        "because a rank that no agent reports ended first"
        if snapshot.missing
        else "and it is not known which rank ended first"
    )
    return new_finding(
        snapshot,
        detector=detector,
        cause="unknown",
        severity=severity,
        culprits=(),
        seconds_ago=seconds_ago,
        confidence=0.3,
        summary=f"all {len(snapshot.ranks)} ranks died of broken connections at step {snapshot.ranks[0].step}, "
        f"{reason}; {restarts}",
        detail="Look for the first error in the job's log, and for a host of the job that has no agent.",
        evidence=Evidence(last_words=None, exit_status=None),
    )


def _restart_outlook(state: RankState, seconds_ago: float, limits: Limits) -> tuple[Severity, str]:
    """Return the severity, and what the launcher will do."""
    restarts_left = None if state.max_restarts is None else state.max_restarts - state.restart_count
    severity: Severity = "critical"
    if restarts_left is None or restarts_left <= 0:
        return severity, "nothing will restart the job"
    if seconds_ago < limits.restart_seconds:
        severity = "warning"
    return severity, f"the launcher has {restarts_left} restarts left and may restart the job"


def _next_steps(culprit: RankState, all_done: bool, memory: str | None) -> str:
    if all_done:
        return f"All ranks had finished. Is the last checkpoint complete? The job's log on {culprit.host} has more."
    if memory:
        return (
            f"On {culprit.host}: `dmesg -T | grep -i -A20 'out of memory'` shows which processes used how much memory. "
            "Give the ranks more memory, or reduce their use (fewer loader workers, smaller batches or caches), and "
            "restart the job."
        )
    return (
        f"Read the end of rank {culprit.rank}'s log, then the kernel's on {culprit.host}: `dmesg -T | tail -50` "
        "(out of memory? GPU error?). Restart the job from its last checkpoint."
    )


def _last_message(state: RankState) -> str:
    words = state.last_words
    if words and words.kind == "exception":
        return f"{words.type.removeprefix('builtins.')}: {words.message.splitlines()[0] if words.message else ''}"
    return state.exit_status or "killed without last words"
