"""Decide who sent the signals that ended ranks: the owner of the job, its launcher after a failure, or somebody else.

torchrun and mpirun send SIGTERM to the survivors of every failure, so a signal alone proves no cancellation. An owner's
signal comes first, and it reaches all ranks of a launcher. Ctrl-C is never a launcher's reaction to a failure.
"""

from __future__ import annotations

from collections.abc import Sequence

from zmon.detectors.endings.job_end import JobEnd, launchers_gave_up, with_last_words
from zmon.detectors.endings.signal_order import Signals
from zmon.detectors.endings.signal_reach import Reach, reach_of
from zmon.detectors.wording import ranks_on
from zmon.job.facts import before, began_to_end, launcher_end
from zmon.job.rank_end import left_with_launchers
from zmon.job.signals import is_interrupted
from zmon.schema.evidence import StallEvidence
from zmon.schema.finding import Finding
from zmon.schema.names import Severity
from zmon.schema.rank import RankState

# The order in which the ranks of a host had a signal has no meaning if processes of the host waited for a core for at
# least this share of the last minute (PSI).
_BUSY_RATIO = 0.3
_SIGNAL_BY_CODE = {"129": "SIGHUP", "130": "SIGINT", "131": "SIGQUIT", "143": "SIGTERM"}  # 128 + the signal's number


def is_owners_end(signals: Signals) -> bool:
    """Return True if the owner ended the job: a signal reached a launcher or all ranks before any rank failed."""
    if signals.end.culprits:
        return False
    if _ended_launchers(signals):
        return True
    if not signals.ranks:
        return False
    if signals.is_interrupt or (signals.end.is_complete and launchers_gave_up(signals.end.ended)):
        return True
    if signals.lone_target or not signals.reached_first:
        return False
    return not signals.is_alone and reach_of(signals) is Reach.ALL


def _ended_launchers(signals: Signals) -> bool:
    """Return True while ranks end because of an owner's signal to all launchers, and connections break only by that."""
    end = signals.end
    left = left_with_launchers(end.snapshot.ranks)
    if not left or not signals.broken:
        return bool(left)
    gone = min(filter(None, map(launcher_end, left)), key=lambda fact: fact.latest)
    lost = began_to_end(signals.broken[0])
    return not before(gone, lost, end.limits.ending_seconds) and not before(lost, gone)


def partial_signal(signals: Signals) -> Finding | None:
    """Return a finding about a signal that reached one rank or one launcher only, after which the job ended."""
    end = signals.end
    if not signals.ranks or end.culprits:
        return None
    if target := signals.lone_target:
        return _lone_signal(end, target, [*signals.ranks, *signals.broken], is_proven=True)
    if not signals.reached_first:
        return None
    if end.living and end.seconds_ago < end.limits.ending_seconds:
        return None  # the others may have the signal too, and save before they end
    is_part = reach_of(signals) is Reach.PART
    # If the others have a signal too, the owner may have ended the job, and one rank was only quicker than the others.
    # An owner's signal reaches all hosts and launchers.
    may_be_owner = len(signals.ranks) > 1 and not is_part
    if not signals.is_alone or (may_be_owner and not _runs_at_once(end, signals.first.host)):
        return _launchers_signal(end, signals, is_part)
    return _lone_signal(end, signals.first, signals.ranks, is_proven=not may_be_owner)


def _signal_of(state: RankState) -> str:
    """Return the name of the signal that ended a cancelled rank."""
    words, status = state.last_words, state.exit_status or ""
    if words is not None and words.kind == "signal":
        return words.type
    if is_interrupted(state):
        return "SIGINT"
    code = words.message if words is not None else status.rpartition(" ")[2]
    return _SIGNAL_BY_CODE.get(code) or (status.removeprefix("signal ") if status.startswith("signal ") else "SIGTERM")


def _lone_signal(end: JobEnd, culprit: RankState, signalled: Sequence[RankState], is_proven: bool) -> Finding:
    """Return the finding about a signal to one rank; a warning if the owner may have ended all ranks."""
    has_followers = any(r is not culprit for r in signalled)
    severity: Severity | None = None if is_proven else "warning"
    return end.finding(
        cause="rank_exited",
        summary=f"rank {culprit.rank} on {culprit.host} was ended by {_signal_of(culprit)} at step {culprit.step} "
        f"during {culprit.activity}, before any other rank failed or had a signal"
        + (", and the others were ended afterwards" if has_followers else ""),
        detail=f"A process on {culprit.host} sent {_signal_of(culprit)} to process {culprit.pid} alone: a memory "
        "watchdog (`journalctl -u earlyoom -u systemd-oomd`), a scheduler that preempts one node (`scontrol show job`, "
        "`kubectl describe pod`), or a person (`last`, `journalctl --since -10min`).",
        confidence=0.8 if is_proven else 0.5,
        culprits=[culprit],
        severity=severity,
        evidence=with_last_words(StallEvidence(), culprit),
    )


def _runs_at_once(end: JobEnd, host: str) -> bool:
    """Return True if a process that gets a signal runs at once: else the order in which ranks had it tells nothing."""
    pressure = [window.pressure_ratio.get("cpu") for window in end.snapshot.hardware if window.host == host]
    return all(ratio is not None and ratio < _BUSY_RATIO for ratio in pressure or [None])


def _launchers_signal(end: JobEnd, signals: Signals, is_part: bool) -> Finding:
    """Return a finding about a signal to ranks of one host or launcher.

    Nobody is named unless it reached only a part of the ranks (`is_part`). Then only the first of them is named,
    because its launcher may have ended the others.
    """
    first, reached = signals.first, ranks_on(signals.reached_first)
    rest = "no other rank had a signal by then" if is_part else "nothing shows whether the owner ended the whole job"
    return end.finding(
        cause="rank_exited" if is_part else "unknown",
        severity=None if is_part else "warning",
        summary=f"{reached} ended by {_signal_of(first)} at step {first.step} during {first.activity}, "
        f"before any other rank failed; {rest}",
        detail=f"If the owner did not end the job: what ended the ranks on {first.host}? A scheduler that preempts one "
        "node (`scontrol show job`, `kubectl describe pod`), a shutdown of the host (`last -x`), or a person "
        "(`journalctl --since -10min`).",
        confidence=0.8 if is_part else 0.3,
        culprits=[first] if is_part else [],
        evidence=with_last_words(StallEvidence(), first),
    )
