"""Separate the ranks that died first and by themselves from those that died because of another rank.

A killed rank leaves no last words. A rank that raises leaves its exception. A peer that dies because its connection
broke leaves a network error. A rank that its launcher ends leaves a signal. The times of last words can be compared
within one host. NCCL's watchdog aborts the ranks that wait, without last words, and not the rank that they wait for.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum

from zmon.schema.rank import LastWords, RankState


class Death(Enum):
    """The way in which a rank ended."""

    KILLED = "killed"
    RAISED = "raised"
    VICTIM = "disconnected"
    CANCELLED = "cancelled"


CANCELLED_TYPES = ("builtins.KeyboardInterrupt", "torch.distributed.elastic.multiprocessing.api.SignalException")
DISCONNECT_TYPES = ("torch.distributed.DistNetworkError", "torch.distributed.DistBackendError")
# The errors of gloo, NCCL and the store when a peer is gone (gloo/transport/tcp/pair.cc; ProcessGroupNCCL.cpp).
DISCONNECT = re.compile(
    r"connection (reset|closed|refused|was aborted)|broken pipe|(read|write|socket) (error|timeout)"
    r"|remote process (has )?(exited|terminated)|peer .*(closed|dead)|application timeout|timed out waiting"
    r"|nccl(systemerror|remoteerror)",
    re.IGNORECASE,
)


CANCELLED_STATUS = ("signal SIGTERM", "signal SIGINT")
CANCELLED_CODES = ("143", "130")  # 128 + the number of the signal: the job has its own handler
CANCELLED_EXIT = tuple(f"exit code {code}" for code in CANCELLED_CODES)


def death(state: RankState) -> Death | None:
    """Return the way in which a dead rank ended; None if it finished normally."""
    words, status = state.last_words, state.exit_status
    if status == "exit code 0":
        return None  # its last words do not matter then
    if words is None:
        return Death.CANCELLED if status in (*CANCELLED_STATUS, *CANCELLED_EXIT) else Death.KILLED
    if words.kind == "signal":
        return Death.CANCELLED if status in (None, *CANCELLED_STATUS) else Death.KILLED
    if words.kind == "exit":
        if status is None or status in CANCELLED_STATUS:
            return None  # it had finished, and its launcher ended the teardown
        return Death.CANCELLED if status in CANCELLED_EXIT else Death.RAISED
    if words.type in CANCELLED_TYPES or (words.type == "builtins.SystemExit" and words.message in CANCELLED_CODES):
        return Death.CANCELLED
    return Death.VICTIM if _is_disconnect(words) else Death.RAISED


def deaths(ranks: Sequence[RankState]) -> list[tuple[RankState, Death]]:
    """Return each rank that has ended with the way in which it ended, judged together with the other ranks."""
    dead = [(r, kind) for r in ended_ranks(ranks) if (kind := death(r))]
    hung = hung_ranks(ranks)
    if not hung:
        return dead
    aborted = [(r, Death.VICTIM if _is_aborted(r) and r not in hung else kind) for r, kind in dead]
    # A rank that hung until its launcher ended it was not cancelled with the others.
    return [(r, Death.KILLED if not r.alive and r in hung else kind) for r, kind in aborted]


def hung_ranks(ranks: Sequence[RankState]) -> list[RankState]:
    """Return the ranks that hung while others on GPUs waited for them, until NCCL aborted those others.

    Such a rank was past its lease before the first abort, and it ended later or is alive. Once nothing moves, every
    rank has entered all collectives that it could, so a rank that hung has entered fewer of a group than the victims.
    """
    victims = [r for r in ranks if _is_aborted(r)]
    first = max((gone_seconds(r) for r in victims), default=0.0)
    furthest: dict[str, int] = {}
    for victim in victims:
        for group, count in _entered(victim).items():
            furthest[group] = max(count, furthest.get(group, 0))
    late = [r for r in ranks if not r.in_flight and _was_overdue(r, first) and (r.alive or gone_seconds(r) < first)]
    return [r for r in late if any(count < furthest.get(group, 0) for group, count in r.sequences.items())]


def _is_aborted(state: RankState) -> bool:
    """Return True if the watchdog may have ended the rank while it waited (ProcessGroupNCCL.cpp).

    On older kernels there is no exit status.
    """
    wordless = not state.alive and state.last_words is None and state.exit_status in (None, "signal SIGABRT")
    if not wordless or state.device == "cpu":
        return False
    return state.in_flight is not None or _was_overdue(state, gone_seconds(state))


def _was_overdue(state: RankState, seconds_ago: float) -> bool:
    """Return True if the rank was past its lease that many seconds ago."""
    since = state.step_seconds if state.activity == "train" else state.activity_seconds
    return state.lease_seconds is not None and since - seconds_ago > state.lease_seconds


def _entered(state: RankState) -> dict[str, int]:
    """Return the number of collectives that the rank has entered, by group, including the one it is in."""
    inside = {state.in_flight.group: state.in_flight.sequence} if state.in_flight else {}
    return {**state.sequences, **inside}


def gone_seconds(state: RankState) -> float:
    """Return the seconds since the rank ended, or since it left its last words and began to end."""
    return (state.leaving_seconds if state.alive else state.gone_seconds) or 0.0


def ended_ranks(ranks: Sequence[RankState]) -> list[RankState]:
    """Return the dead ranks, and those that have raised and are about to end, which may take seconds.

    A job may survive an exception that reached its excepthook. So a rank that is alive counts only if it has finished
    no step since then, and only if some rank is dead or nothing moves.
    """
    dead = [r for r in ranks if not r.alive]
    leaving = [r for r in ranks if r.alive and r.leaving_seconds is not None and r.step_seconds >= r.leaving_seconds]
    if dead or all(r.overdue_seconds > 0 for r in ranks if r.alive and r.activity != "done"):
        return [*dead, *leaving]
    return []


def culprits(dead: Sequence[tuple[RankState, Death]], together_seconds: float) -> list[RankState]:
    """Return the ranks that died first and of their own accord; none if the job was cancelled or all are victims.

    Deaths less than `together_seconds` apart count as simultaneous, because the agent looks ten times a second. Among
    them the last words decide, because the rank stamps them itself. Last words of different hosts are not compared.
    """
    own = [(state, kind) for state, kind in dead if kind is not Death.VICTIM]  # a victim may be gone before its culprit
    first = max((gone_seconds(state) for state, _ in own), default=0.0)
    together = [(s, kind) for s, kind in own if gone_seconds(s) >= first - together_seconds]
    killed = [s for s, kind in together if kind is Death.KILLED]
    if killed:
        return killed
    raised = [s for s, kind in together if kind is Death.RAISED]
    cancelled = [s for s, kind in together if kind is Death.CANCELLED]
    raised = [s for s in raised if not any(_has_earlier_last_words(other, s) for other in cancelled)]
    return [s for s in raised if not any(_has_earlier_last_words(other, s) for other in raised)]


def _has_earlier_last_words(state: RankState, other: RankState) -> bool:
    words, others = state.last_words, other.last_words
    return state.host == other.host and words is not None and others is not None and words.time < others.time


def _is_disconnect(words: LastWords) -> bool:
    """Return True if this is the error of a collective whose peer is gone.

    The error of a data loader that loses its connection does not count, because it is the rank's own error.
    """
    if words.type in DISCONNECT_TYPES:
        return True
    is_torch_error = words.type == "builtins.RuntimeError" or words.type.startswith("torch.")
    return is_torch_error and DISCONNECT.search(words.message) is not None
