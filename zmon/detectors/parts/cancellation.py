"""Decide who sent the signals that ended ranks: the owner of the job, its launcher after a failure, or somebody else.

torchrun and mpirun send SIGTERM to the survivors of every failure, so a signal alone proves no cancellation. An owner's
signal comes first, and it reaches all ranks of a launcher. Ctrl-C is never a launcher's reaction to a failure.
"""

from __future__ import annotations

from collections import Counter

from zmon.detectors.parts.deaths import Death, began_seconds, precedes
from zmon.detectors.parts.ends import Ends, with_first_words
from zmon.schema.evidence import Evidence
from zmon.schema.finding import Finding
from zmon.schema.names import Severity
from zmon.schema.rank import RankState

_BROKEN = (Death.VICTIM, Death.NOT_MET)
_LAUNCHERS_STATUS = "signal SIGTERM"


def is_owners_end(ends: Ends) -> bool:
    """Return True if the owner ended the job: a signal reached a launcher or all ranks before any rank failed."""
    signalled = ends.of(Death.CANCELLED)
    if not signalled or ends.culprits:
        return False
    broken = ends.of(*_BROKEN)
    if _is_interrupted(ends, signalled, broken):
        return True
    first = _first_signalled(ends, signalled, broken)
    return bool(first) and not _is_alone(ends, first)


def lone_signal(ends: Ends) -> Finding | None:
    """Return a finding about a signal that reached one rank only, after which the job ended."""
    signalled = ends.of(Death.CANCELLED)
    if not signalled or ends.culprits or is_owners_end(ends):
        return None
    first = _first_signalled(ends, signalled, ends.of(*_BROKEN))
    if not first:
        return None
    if ends.living and ends.seconds_ago < ends.limits.ending_seconds:
        return None  # the others may have the signal too, and save before they end
    culprit = first[0]
    also = [r for r in signalled if r is not culprit]
    # If the others have a signal too, the owner may have ended the job, and one rank was only quicker than the others.
    severity: Severity | None = "warning" if also else None
    return ends.finding(
        cause="rank_exited",
        summary=f"rank {culprit.rank} on {culprit.host} was ended by {signal_of(culprit)} at step {culprit.step} "
        f"during {culprit.activity}, before any other rank failed or had a signal"
        + (", and the others were ended afterwards" if also else ""),
        detail=f"A process on {culprit.host} sent {signal_of(culprit)} to process {culprit.pid} alone: a memory "
        "watchdog (`journalctl -u earlyoom -u systemd-oomd`), a scheduler that preempts one node (`scontrol show job`, "
        "`kubectl describe pod`), or a person (`last`, `journalctl --since -10min`).",
        confidence=0.5 if also else 0.8,
        culprits=[culprit],
        severity=severity,
        evidence=with_first_words(Evidence(), culprit),
    )


def signal_of(state: RankState) -> str:
    """Return the name of the signal that ended a cancelled rank."""
    words, status = state.last_words, state.exit_status or ""
    if words is not None and words.kind == "signal":
        return words.type
    if is_interrupted(state):
        return "SIGINT"
    names = {"129": "SIGHUP", "130": "SIGINT", "131": "SIGQUIT", "143": "SIGTERM"}
    code = words.message if words is not None else status.rpartition(" ")[2]
    return names.get(code) or (status.removeprefix("signal ") if status.startswith("signal ") else "SIGTERM")


def is_interrupted(state: RankState) -> bool:
    """Return True if Ctrl-C (SIGINT) ended the rank."""
    words = state.last_words
    if state.exit_status in ("signal SIGINT", "exit code 130"):
        return True
    is_exit_130 = words is not None and (words.type, words.message) == ("builtins.SystemExit", "130")
    return is_exit_130 or (words is not None and words.type.endswith("KeyboardInterrupt"))


def _is_interrupted(ends: Ends, signalled: list[RankState], broken: list[RankState]) -> bool:
    """Return True if somebody pressed Ctrl-C: ranks were interrupted, and no launcher reacted to the end of one."""
    interrupted = [r for r in signalled if is_interrupted(r)]
    if not interrupted:
        return False
    if broken and began_seconds(broken[0]) - began_seconds(interrupted[0]) > ends.limits.interrupt_seconds:
        return False  # the job had failed before
    others = [r for r in ends.snapshot.ranks if r not in interrupted]
    return len(interrupted) > 1 or not any(_is_terminated(r) for r in others)


def _is_terminated(state: RankState) -> bool:
    words = state.last_words
    return state.exit_status == _LAUNCHERS_STATUS or (words is not None and words.type == "SIGTERM")


def _first_signalled(ends: Ends, signalled: list[RankState], broken: list[RankState]) -> list[RankState]:
    """Return the ranks that a signal reached before any rank lost a connection; none if a connection broke first."""
    return [s for s in signalled if not any(_breaks_before(ends, other, s) for other in broken)]


def _breaks_before(ends: Ends, broken: RankState, signalled: RankState) -> bool:
    """Return True if the connection of one rank broke before a signal reached the other rank.

    Last words have exact times, and a launcher reacts late. Without them, ages that differ little prove nothing.
    """
    limits = ends.limits
    if broken.last_words_seconds is None or signalled.last_words_seconds is None:
        return precedes(broken, signalled, limits.together_seconds)
    return precedes(broken, signalled, limits.aligned_seconds)


def _is_alone(ends: Ends, first: list[RankState]) -> bool:
    """Return True if the signal was meant for one rank: it reached no other, or the others clearly later."""
    if len(ends.snapshot.reported_ranks) == 1:
        return False
    signalled = ends.of(Death.CANCELLED)
    broken = ends.of(*_BROKEN)
    if len(signalled) == 1 and not broken:
        return bool(ends.living)  # all others have finished, or live on
    if len(signalled) == 1:
        return not _has_launcher_of_its_own(ends, first[0]) or not _may_restart(first[0])
    if not all(_is_exact(r) for r in signalled):
        return False  # the order of the signals is not known well enough
    lead = min(_lead(ends, first[0], other) for other in signalled if other is not first[0])
    spread = began_seconds(signalled[1]) - began_seconds(signalled[-1])
    is_answered = any(began_seconds(first[0]) > began_seconds(r) > began_seconds(signalled[1]) for r in broken)
    return lead > ends.limits.alone_seconds and (is_answered or lead > spread)


def _is_exact(state: RankState) -> bool:
    """Return True if the last words have the time of the signal. A handler of the job runs later, and may save."""
    return state.last_words_seconds is not None and state.last_words is not None and state.last_words.kind == "signal"


def _lead(ends: Ends, first: RankState, other: RankState) -> float:
    """Return by how much the first signal certainly preceded the other, in seconds."""
    lead = began_seconds(first) - began_seconds(other)
    return lead if first.host == other.host else lead - ends.limits.together_seconds


def _has_launcher_of_its_own(ends: Ends, state: RankState) -> bool:
    launchers = Counter((r.host, r.launcher) for r in ends.snapshot.reported_ranks)
    return len(launchers) > 1 and launchers[state.host, state.launcher] == 1


def _may_restart(state: RankState) -> bool:
    return state.max_restarts is not None and state.max_restarts > state.restart_count
