"""Which of the dead ranks died of its own accord, and which of the death of another?

A rank that is killed says nothing; one that raises leaves its exception; a peer that dies of the broken connection
leaves a network error; one that its launcher ends leaves a signal. On one host the times of last words can be compared.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum

from zmon.records import RankState


class Death(Enum):
    """How a rank came to its end."""

    KILLED = "killed"
    RAISED = "raised"
    VICTIM = "disconnected"
    CANCELLED = "cancelled"


CANCELLED_TYPES = ("builtins.KeyboardInterrupt", "torch.distributed.elastic.multiprocessing.api.SignalException")
DISCONNECT_TYPES = ("torch.distributed.DistNetworkError", "torch.distributed.DistBackendError")
# What gloo, NCCL and the store say when a peer is gone (gloo/transport/tcp/pair.cc; ProcessGroupNCCL.cpp).
DISCONNECT = re.compile(
    r"connection (reset|closed|refused|was aborted)|broken pipe|(read|write|socket) (error|timeout)"
    r"|remote process (has )?(exited|terminated)|peer .*(closed|dead)|application timeout|timed out waiting"
    r"|nccl(systemerror|remoteerror)",
    re.IGNORECASE,
)


def death(state: RankState) -> Death | None:
    """How a dead rank came to its end; None where it simply finished."""
    words, status = state.last_words, state.exit_status
    if words is None or (words.kind == "signal" and status not in (None, "signal SIGTERM")):
        return Death.CANCELLED if status in ("signal SIGTERM", "signal SIGINT") else Death.KILLED
    if words.kind == "signal" or words.type in CANCELLED_TYPES:
        return Death.CANCELLED
    if words.kind == "exit":
        return None if status in (None, "exit code 0") else Death.RAISED
    if words.type in DISCONNECT_TYPES or DISCONNECT.search(words.message):
        return Death.VICTIM
    return Death.RAISED


def culprits(dead: Sequence[tuple[RankState, Death]], together_seconds: float) -> list[RankState]:
    """Those that went first and of their own accord; nobody if the job was cancelled or only victims are seen.

    Deaths less than `together_seconds` apart count as simultaneous: the agent looks ten times a second. Among them
    last words decide, being stamped by the rank itself.
    """
    first = max((state.gone_seconds or 0.0 for state, _ in dead), default=0.0)
    together = [(s, how) for s, how in dead if (s.gone_seconds or 0.0) >= first - together_seconds]
    killed = [s for s, how in together if how is Death.KILLED]
    if killed:
        return killed
    raised = [(s.last_words.time, s) for s, how in together if how is Death.RAISED and s.last_words]
    cancelled = [s.last_words.time for s, how in together if how is Death.CANCELLED and s.last_words]
    raised.sort(key=lambda pair: pair[0])
    return [s for at, s in raised[:1] if not cancelled or at <= min(cancelled)]
