"""Decide who sent the signals that ended ranks: the owner of the job, its launcher after a failure, or somebody else.

torchrun and mpirun send SIGTERM to the survivors of every failure, so a signal alone proves no cancellation. An owner's
signal comes first, and it reaches all ranks of a launcher. Ctrl-C is never a launcher's reaction to a failure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from enum import Enum

from zmon.detectors.endings.ends import Ends, with_first_words
from zmon.detectors.wording import ranks_on
from zmon.job import facts
from zmon.job.deaths import precedes
from zmon.job.own_death import CANCELLED_EXIT, CANCELLED_STATUS, Death, began_seconds, gone_seconds
from zmon.job.signal_sender import Sender, is_one_sweep, lone_target, sender
from zmon.schema.evidence import StallEvidence
from zmon.schema.finding import Finding
from zmon.schema.names import Severity
from zmon.schema.rank import RankState

_BROKEN = (Death.VICTIM, Death.NOT_MET)
_LAUNCHERS_STATUS = "signal SIGTERM"
# If processes of a host waited for a core for at least this share of the last minute (PSI), the order in which its
# ranks had a signal tells nothing.
_BUSY_RATIO = 0.3
# Ctrl-C counts as the reason of an end if it came within this time of the first broken connection. A rank that closes
# its connections while it handles Ctrl-C leaves its last words after its victims.
_INTERRUPT_SECONDS = 10.0


Unit = Callable[[RankState], tuple[str, str]]  # the host or the launcher of a rank


class Reach(Enum):
    """The ranks that a signal reached."""

    ALL = "all ranks"
    PART = "ranks of one host or launcher"
    UNCLEAR = "ranks of one host or launcher, and the others may have had it too"


def is_owners_end(ends: Ends) -> bool:
    """Return True if the owner ended the job: a signal reached a launcher or all ranks before any rank failed."""
    signalled = ends.of(Death.CANCELLED)
    if not signalled or ends.culprits:
        return False
    broken = ends.of(*_BROKEN)
    if _is_interrupted(ends, signalled, broken):
        return True
    if lone_target(signalled):
        return False
    first = _first_signalled(ends, signalled, broken)
    return bool(first) and not _is_alone(ends, first) and _reach(ends, first) is Reach.ALL


def partial_signal(ends: Ends) -> Finding | None:
    """Return a finding about a signal that reached one rank or one launcher only, after which the job ended."""
    signalled = ends.of(Death.CANCELLED)
    if not signalled or ends.culprits or is_owners_end(ends):
        return None
    if target := lone_target(signalled):
        return _lone_signal(ends, target, signalled, is_proven=True)
    first = _first_signalled(ends, signalled, ends.of(*_BROKEN))
    if not first:
        return None
    if ends.living and ends.seconds_ago < ends.limits.ending_seconds:
        return None  # the others may have the signal too, and save before they end
    if not _is_alone(ends, first):
        return _launchers_signal(ends, first)
    # If the others have a signal too, the owner may have ended the job, and one rank was only quicker than the others.
    # An owner's signal reaches all hosts and launchers.
    may_be_owner = len(signalled) > 1 and _reach(ends, first) is not Reach.PART
    if may_be_owner and not _runs_at_once(ends, first[0].host):
        return _launchers_signal(ends, first)
    return _lone_signal(ends, first[0], signalled, is_proven=not may_be_owner)


def _lone_signal(ends: Ends, culprit: RankState, signalled: Sequence[RankState], is_proven: bool) -> Finding:
    """Return the finding about a signal to one rank; a warning if the owner may have ended all ranks."""
    also = any(r is not culprit for r in signalled)
    severity: Severity | None = None if is_proven else "warning"
    return ends.finding(
        cause="rank_exited",
        summary=f"rank {culprit.rank} on {culprit.host} was ended by {signal_of(culprit)} at step {culprit.step} "
        f"during {culprit.activity}, before any other rank failed or had a signal"
        + (", and the others were ended afterwards" if also else ""),
        detail=f"A process on {culprit.host} sent {signal_of(culprit)} to process {culprit.pid} alone: a memory "
        "watchdog (`journalctl -u earlyoom -u systemd-oomd`), a scheduler that preempts one node (`scontrol show job`, "
        "`kubectl describe pod`), or a person (`last`, `journalctl --since -10min`).",
        confidence=0.8 if is_proven else 0.5,
        culprits=[culprit],
        severity=severity,
        evidence=with_first_words(StallEvidence(), culprit),
    )


def _runs_at_once(ends: Ends, host: str) -> bool:
    """Return True if a process that gets a signal runs at once: else the order in which ranks had it tells nothing."""
    pressure = [window.pressure_ratio.get("cpu") for window in ends.snapshot.hardware if window.host == host]
    return all(ratio is not None and ratio < _BUSY_RATIO for ratio in pressure or [None])


def _launchers_signal(ends: Ends, signalled: list[RankState]) -> Finding:
    """Return a finding about a signal to ranks of one host or launcher; nobody is named if it may have reached others.

    Only the first of the ranks is named, because its launcher may have ended the others.
    """
    first, is_part = signalled[0], _reach(ends, signalled) is Reach.PART
    rest = "no other rank had a signal" if is_part else "nothing shows whether the owner ended the whole job"
    return ends.finding(
        cause="rank_exited" if is_part else "unknown",
        severity=None if is_part else "warning",
        summary=f"{ranks_on(signalled)} ended by {signal_of(first)} at step {first.step} during {first.activity}, "
        f"before any other rank failed; {rest}",
        detail=f"If the owner did not end the job: what ended the ranks on {first.host}? A scheduler that preempts one "
        "node (`scontrol show job`, `kubectl describe pod`), a shutdown of the host (`last -x`), or a person "
        "(`journalctl --since -10min`).",
        confidence=0.8 if is_part else 0.3,
        culprits=signalled[:1] if is_part else [],
        evidence=with_first_words(StallEvidence(), first),
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
    if broken and began_seconds(broken[0]) - began_seconds(interrupted[0]) > _INTERRUPT_SECONDS:
        return False  # the job had failed before
    others = (r for r in ends.snapshot.ranks if r.rank != interrupted[0].rank)
    return len(interrupted) > 1 or not any(_is_terminated(r) for r in others)


def _is_terminated(state: RankState) -> bool:
    words = state.last_words
    return state.exit_status == _LAUNCHERS_STATUS or (words is not None and words.type == "SIGTERM")


def _first_signalled(ends: Ends, signalled: list[RankState], broken: list[RankState]) -> list[RankState]:
    """Return the ranks that a signal reached before any rank lost a connection; none if a connection broke first."""
    return [s for s in signalled if not any(_breaks_before(ends, other, s) for other in broken)]


def _breaks_before(ends: Ends, broken: RankState, signalled: RankState) -> bool:
    """Return True if the connection of one rank broke before a signal reached the other rank.

    Last words have exact times, and a launcher reacts late. Without them, ages that differ little prove nothing. An
    owner's signal makes no watchdog abort a rank, so an aborted rank ended first unless it certainly did not.
    """
    if broken.last_words is None:
        return not precedes(signalled, broken, facts.TOGETHER_SECONDS)
    if broken.last_words_seconds is None or signalled.last_words_seconds is None:
        return precedes(broken, signalled, facts.TOGETHER_SECONDS)
    return precedes(broken, signalled, facts.ALIGNED_SECONDS)


def _is_alone(ends: Ends, first: list[RankState]) -> bool:
    """Return True if the signal was meant for one rank: it reached no other, or the others clearly later."""
    if len(ends.snapshot.reported_ranks) == 1 or sender(first[0]) is Sender.LAUNCHER:
        return False  # a launcher signals all its ranks
    signalled = ends.of(Death.CANCELLED)
    broken = ends.of(*_BROKEN)
    if len(signalled) == 1 and not broken:
        return bool(ends.living)  # all others have finished, or live on
    if len(signalled) == 1:
        return not _has_launcher_of_its_own(ends, first[0]) and not _signalled_too(ends, first[0])
    return _leads(ends, first[0], facts.ALONE_SECONDS)


def _signalled_too(ends: Ends, first: RankState) -> bool:
    """Return True if the ranks of all other launchers had the signal as well, although no launcher sent it.

    Their last words are broken connections, which came a moment before the signal. torchrun signals only the ranks of
    its own host, and only after one of them has failed by itself.
    """
    others = [r for r in ends.ended if (r.host, r.launcher) != (first.host, first.launcher)]
    if not others or ends.living or any(r.max_restarts is None for r in others):
        return False
    return all(
        r.exit_status in CANCELLED_STATUS and gone_seconds(first) - gone_seconds(r) <= facts.SPARED_SECONDS
        for r in _first_gone(ends, others, _launcher)
    )


def _leads(ends: Ends, first: RankState, seconds: float) -> bool:
    """Return True if one rank had the signal this much earlier than all others, and those had it about together."""
    signalled = ends.of(Death.CANCELLED)
    if len(signalled) < 2 or not all(_is_exact(r) for r in signalled) or is_one_sweep(signalled):
        return False  # the order of the signals is not known well enough, or tells nothing
    lead = min(_lead(ends, first, other) for other in signalled if other is not first)
    spread = began_seconds(signalled[1]) - began_seconds(signalled[-1])
    is_answered = any(began_seconds(first) > began_seconds(r) > began_seconds(signalled[1]) for r in ends.of(*_BROKEN))
    return lead > seconds and (is_answered or lead > spread)


def _is_exact(state: RankState) -> bool:
    """Return True if the last words have the time of the signal. A handler of the job runs later, and may save."""
    return state.last_words_seconds is not None and state.last_words is not None and state.last_words.kind == "signal"


def _lead(ends: Ends, first: RankState, other: RankState) -> float:
    """Return by how much the first signal certainly preceded the other, in seconds."""
    lead = began_seconds(first) - began_seconds(other)
    return lead if first.host == other.host else lead - facts.TOGETHER_SECONDS


def _has_launcher_of_its_own(ends: Ends, state: RankState) -> bool:
    launchers = Counter(map(_launcher, ends.snapshot.reported_ranks))
    return len(launchers) > 1 and launchers[_launcher(state)] == 1


def _reach(ends: Ends, signalled: list[RankState]) -> Reach:
    """Return whom the first signal reached: all ranks, or those of one host or launcher.

    Whoever signals ranks of several hosts, or of several launchers on one, ends the job. A rank whose connection broke
    may have had the signal a moment later. The exit status tells, for the rank that ended first on its host: its
    launcher signals the others.
    """
    several_hosts = len({r.host for r in ends.snapshot.reported_ranks}) > 1
    unit = _host if several_hosts else _launcher
    reached = set(map(unit, signalled))
    if len(reached) > 1:
        return Reach.ALL
    others = [r for r in ends.snapshot.ranks if unit(r) not in reached and r.activity != "done"]
    may_be_alone = _leads(ends, signalled[0], facts.AHEAD_SECONDS)  # its launcher may have ended the others
    if not others:
        return Reach.UNCLEAR if may_be_alone else Reach.ALL
    ended = {r.rank for r in ends.ended}
    if any(r.rank not in ended for r in others):
        return Reach.ALL if ends.seconds_ago < ends.limits.ending_seconds else Reach.PART
    firsts = _first_gone(ends, others, unit)
    if _is_exact(signalled[0]) and any(_was_spared(ends, r, signalled[0], r in firsts) for r in others):
        return Reach.PART
    statuses = [r.exit_status for r in firsts]
    if any(status is None for status in statuses):
        return Reach.UNCLEAR
    if not all(map(_had_signal, firsts)):
        return Reach.PART
    return Reach.UNCLEAR if may_be_alone else Reach.ALL


def _was_spared(ends: Ends, state: RankState, signalled: RankState, is_first: bool) -> bool:
    """Return True if the signal did not reach a rank: it would have ended the rank at once, as it ended the other.

    The rank lived on until NCCL's watchdog aborted it, or it raised and took its time to end. `is_first`: its launcher
    had no reason to signal it. A known exit status tells more than that time.
    """
    is_aborted = state.last_words is None
    if state not in ends.of(*_BROKEN) or not (is_aborted or (is_first and state.exit_status is None)):
        return False
    return gone_seconds(signalled) - gone_seconds(state) > facts.SPARED_SECONDS


def _first_gone(ends: Ends, ranks: Sequence[RankState], unit: Unit) -> list[RankState]:
    """Return the rank of each host or launcher that has been gone longest.

    Among ranks that ended together, a rank that ended by itself comes first: its launcher signalled the others.
    """
    firsts: dict[tuple[str, str], RankState] = {}
    for state in sorted(ranks, key=gone_seconds, reverse=True):
        first = firsts.setdefault(unit(state), state)
        is_together = gone_seconds(first) - gone_seconds(state) <= facts.TOGETHER_SECONDS
        if is_together and _had_signal(first) and state.exit_status is not None and not _had_signal(state):
            firsts[unit(state)] = state
    return list(firsts.values())


def _had_signal(state: RankState) -> bool:
    """Return True if the exit status is that of a signal, or of a job that handled one."""
    return state.exit_status in (*CANCELLED_STATUS, *CANCELLED_EXIT)


def _host(state: RankState) -> tuple[str, str]:
    return state.host, ""


def _launcher(state: RankState) -> tuple[str, str]:
    return state.host, state.launcher
