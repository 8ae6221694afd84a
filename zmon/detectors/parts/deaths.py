"""Which of the dead ranks died of its own accord, and which of the death of another?

A rank that is killed says nothing; one that raises leaves its exception; a peer that dies of the broken connection
leaves a network error; one that its launcher ends leaves a signal. On one host the times of last words can be compared.
NCCL's watchdog aborts those that wait, without a word, and not the one that they wait for.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum

from zmon.schema.rank import LastWords, RankState


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


CANCELLED_STATUS = ("signal SIGTERM", "signal SIGINT")
CANCELLED_CODES = ("143", "130")  # 128 + the signal's number: by a handler of the job's own
CANCELLED_EXIT = tuple(f"exit code {code}" for code in CANCELLED_CODES)


def death(state: RankState) -> Death | None:
    """How a dead rank came to its end; None where it simply finished."""
    words, status = state.last_words, state.exit_status
    if status == "exit code 0":
        return None  # whatever it said on the way
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
    return Death.VICTIM if _says_disconnected(words) else Death.RAISED


def deaths(ranks: Sequence[RankState]) -> list[tuple[RankState, Death]]:
    """How each that has ended came to it, seen together with the others."""
    found = [(r, how) for r in ended(ranks) if (how := death(r))]
    behind = hung(ranks)
    if not behind:
        return found
    aborted = [(r, Death.VICTIM if _aborted(r) and r not in behind else how) for r, how in found]
    # One that hung until its launcher ended it was not cancelled with the others.
    return [(r, Death.KILLED if not r.alive and r in behind else how) for r, how in aborted]


def hung(ranks: Sequence[RankState]) -> list[RankState]:
    """Those that had stopped moving before ranks on GPUs that waited for them were aborted by NCCL, and outlived these.

    Once nothing moves, whoever could enter another collective has done so: those have entered fewer of a group.
    """
    victims = [r for r in ranks if _aborted(r)]
    first = max((gone(r) for r in victims), default=0.0)
    furthest: dict[str, int] = {}
    for victim in victims:
        for group, count in _entered(victim).items():
            furthest[group] = max(count, furthest.get(group, 0))
    late = [r for r in ranks if not r.in_flight and _overdue(r, first) and (r.alive or gone(r) < first)]
    return [r for r in late if any(count < furthest.get(group, 0) for group, count in r.sequences.items())]


def _aborted(state: RankState) -> bool:
    """Whether the watchdog may have ended it, as it waited (ProcessGroupNCCL.cpp). Older kernels tell no status."""
    wordless = not state.alive and state.last_words is None and state.exit_status in (None, "signal SIGABRT")
    return wordless and state.device != "cpu" and (state.in_flight is not None or _overdue(state, gone(state)))


def _overdue(state: RankState, ago: float) -> bool:
    """Whether it was past its lease so many seconds ago."""
    since = state.step_seconds if state.activity == "train" else state.activity_seconds
    return state.lease_seconds is not None and since - ago > state.lease_seconds


def _entered(state: RankState) -> dict[str, int]:
    """By group: how many collectives it has entered, with the one it is in."""
    inside = {state.in_flight.group: state.in_flight.sequence} if state.in_flight else {}
    return {**state.sequences, **inside}


def gone(state: RankState) -> float:
    """Since when it is gone, or on its way out."""
    return (state.leaving_seconds if state.alive else state.gone_seconds) or 0.0


def ended(ranks: Sequence[RankState]) -> list[RankState]:
    """The dead, and those that have raised and are on their way out: some take seconds for that, or hang in it.

    A job may survive what it told its excepthook. So those still alive count only if they have finished no step since
    then, and if a rank is dead indeed, or nothing moves.
    """
    dead = [r for r in ranks if not r.alive]
    leaving = [r for r in ranks if r.alive and r.leaving_seconds is not None and r.step_seconds >= r.leaving_seconds]
    if dead or all(r.overdue_seconds > 0 for r in ranks if r.alive and r.activity != "done"):
        return [*dead, *leaving]
    return []


def culprits(dead: Sequence[tuple[RankState, Death]], together_seconds: float) -> list[RankState]:
    """Those that went first and of their own accord; nobody if the job was cancelled or only victims are seen.

    Deaths less than `together_seconds` apart count as simultaneous: the agent looks ten times a second. Among them
    last words decide, being stamped by the rank itself; those of different hosts are not compared.
    """
    own = [(state, how) for state, how in dead if how is not Death.VICTIM]  # a victim may be gone before its culprit
    first = max((gone(state) for state, _ in own), default=0.0)
    together = [(s, how) for s, how in own if gone(s) >= first - together_seconds]
    killed = [s for s, how in together if how is Death.KILLED]
    if killed:
        return killed
    raised = [s for s, how in together if how is Death.RAISED]
    cancelled = [s for s, how in together if how is Death.CANCELLED]
    raised = [s for s in raised if not any(_spoke_before(other, s) for other in cancelled)]
    return [s for s in raised if not any(_spoke_before(other, s) for other in raised)]


def _spoke_before(one: RankState, other: RankState) -> bool:
    words, others = one.last_words, other.last_words
    return one.host == other.host and words is not None and others is not None and words.time < others.time


def _says_disconnected(words: LastWords) -> bool:
    """Whether this is the error of a collective whose peer is gone; a loader's lost connection is its own."""
    if words.type in DISCONNECT_TYPES:
        return True
    ours = words.type == "builtins.RuntimeError" or words.type.startswith("torch.")
    return ours and DISCONNECT.search(words.message) is not None
