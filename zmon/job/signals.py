"""Identify the senders of the signals that ended ranks, and the exceptions with which ranks obey signals.

Pure. The kernel gives a handler the process that sent a signal (si_pid, sigaction(2)), and the C part of the probe
records it. A launcher signals its ranks after a rank has failed, or after the owner has signalled the launcher. So a
rank was signalled alone if another process signalled it, while the launcher signalled the other ranks.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum

from zmon.schema.rank import LastWords, RankState

CANCELLED_CODES = (143, 130, 129, 131)  # 128 + the number of the signal: the job has its own handler
# Ctrl-C, torchrun's exception for a signal, and the exceptions that frameworks raise on SIGTERM.
_CANCELLED_TYPE = re.compile(r"(^|\.)(KeyboardInterrupt|SignalException|SIGTERM\w*)$")


class Sender(Enum):
    """The sender of the signal that ended a rank."""

    LAUNCHER = "its launcher"
    OTHER = "another process"
    UNKNOWN = "unknown"


def sender(state: RankState) -> Sender:
    """Return the sender of the signal that ended a rank, also if it came after the last words of the rank."""
    pid = sender_pid(state)
    launcher = launcher_pid(state)
    if pid is None or not launcher:
        return Sender.UNKNOWN
    return Sender.LAUNCHER if pid == launcher else Sender.OTHER


def sender_pid(state: RankState) -> int | None:
    """Return the process that sent the signal; None if it is unknown."""
    words = state.last_words
    if words is None:
        return None
    return words.late_sender_pid if words.sender_pid is None else words.sender_pid


def launcher_pid(state: RankState) -> int:
    """Return the process id of the launcher of a rank; 0: it is in another PID namespace."""
    return int(state.launcher.partition("@")[0] or 0)


def lone_target(signalled: Sequence[RankState]) -> RankState | None:
    """Return the only rank that another process signalled, if their launchers signalled all others; else None."""
    senders = [sender(state) for state in signalled]
    if senders.count(Sender.OTHER) != 1 or senders.count(Sender.LAUNCHER) != len(signalled) - 1 or len(signalled) < 2:
        return None
    return signalled[senders.index(Sender.OTHER)]


def is_one_sweep(signalled: Sequence[RankState]) -> bool:
    """Return True if all signals came from the launchers, or from one process, so that their order has no meaning."""
    senders = {sender(state) for state in signalled}
    if senders == {Sender.LAUNCHER}:
        return True
    sources = {(state.host, state.last_words.sender_pid) for state in signalled if state.last_words}
    return senders == {Sender.OTHER} and len(sources) == 1


def is_cancellation(words: LastWords) -> bool:
    """Return True if these last words are an exception with which a rank obeys a signal."""
    if words.kind != "exception":
        return False
    if words.type == "builtins.SystemExit":
        return words.message in map(str, CANCELLED_CODES)
    return _CANCELLED_TYPE.search(words.type) is not None


def is_interrupted(state: RankState) -> bool:
    """Return True if Ctrl-C (SIGINT) ended the rank."""
    words = state.last_words
    if state.exit_status in ("signal SIGINT", "exit code 130"):
        return True
    is_exit_130 = words is not None and (words.type, words.message) == ("builtins.SystemExit", "130")
    return is_exit_130 or (words is not None and words.type.endswith("KeyboardInterrupt"))
