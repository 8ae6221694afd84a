"""Classify the way in which one rank ended, from its last words, its exit status and the end of its launcher.

A killed rank leaves no last words. A rank that raises leaves its exception. A peer that dies because its connection
broke leaves a network error. A rank that its launcher ends leaves a signal.
"""

from __future__ import annotations

from enum import Enum

from zmon.job.cancellation import CANCELLED_CODES, is_cancellation
from zmon.job.connection_errors import could_not_meet, is_broken_connection
from zmon.schema.rank import RankState


class Death(Enum):
    """The way in which a rank ended."""

    KILLED = "killed"
    RAISED = "raised"
    HUNG = "hung until others gave up"
    VICTIM = "disconnected"
    NOT_MET = "never reached the others"
    CANCELLED = "cancelled"
    FINISHED = "finished"


CANCELLED_STATUS = tuple(f"signal {name}" for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT"))  # torchrun's list
CANCELLED_EXIT = tuple(f"exit code {code}" for code in CANCELLED_CODES)
_SIGKILL = "signal SIGKILL"
_OWNERS_STATUS = CANCELLED_STATUS[1:]  # no launcher sends these because a rank has failed
# A launcher that a signal ended takes its ranks along: its children are interrupted, or killed after a grace.
# The agent looks at a rank and then at its launcher, ten times a second. So a launcher that was seen dead one look
# earlier ended first.
_LAUNCHER_LEAD_SECONDS = 0.02
_LAUNCHER_LAG_SECONDS = 0.3  # the kernel ends all processes of a container at once, and either may be seen dead first
_LAUNCHER_GRACE_SECONDS = 60.0  # schedulers and containers wait 10 to 30 s before they kill


def death(state: RankState) -> Death:
    """Return the way in which a rank ended that is dead or has left its last words."""
    kind = _own_death(state)
    return Death.CANCELLED if _followed_its_launcher(state, kind) else kind


def _own_death(state: RankState) -> Death:
    words, status = state.last_words, state.exit_status
    if status == "exit code 0":
        return Death.FINISHED  # its last words do not matter then
    if words is None:
        return Death.CANCELLED if status in (*CANCELLED_STATUS, *CANCELLED_EXIT) else Death.KILLED
    if words.kind == "signal":
        return Death.CANCELLED if status in (None, *CANCELLED_STATUS) else Death.KILLED
    if words.kind == "exit":
        if status is None or status in CANCELLED_STATUS:
            return Death.FINISHED  # it had finished, and its launcher ended the teardown
        if status == _SIGKILL:
            return Death.KILLED  # while it was ending
        return Death.CANCELLED if status in CANCELLED_EXIT else Death.RAISED
    if is_cancellation(words) or words.sender_pid is not None:  # its handler ended it, or its peers were quicker
        return Death.CANCELLED
    if could_not_meet(state):
        return Death.NOT_MET
    if not is_broken_connection(words):
        return Death.RAISED
    # A rank that waits in a collective handles a signal only when its peers are gone.
    return Death.CANCELLED if status in (*CANCELLED_EXIT, *_OWNERS_STATUS) else Death.VICTIM


def _followed_its_launcher(state: RankState, kind: Death) -> bool:
    """Return True if an owner's signal ended the launcher, and the rank was killed or left cleanly because of it.

    The processes of `torch.multiprocessing.spawn` swallow the interrupt that they get then, and exit with code 0. A
    rank that had left its last words was ending already, so it need not have ended after its launcher.
    """
    if state.launcher_gone_seconds is None or state.launcher_status not in CANCELLED_STATUS:
        return False
    lead = state.launcher_gone_seconds - gone_seconds(state)
    least = _LAUNCHER_LEAD_SECONDS if state.last_words is None else -_LAUNCHER_LAG_SECONDS
    is_led = least <= lead <= _LAUNCHER_GRACE_SECONDS
    return is_led and (kind is Death.FINISHED or (kind is Death.KILLED and state.exit_status in (None, _SIGKILL)))


def was_killed_after_its_launcher(state: RankState) -> bool:
    """Return True if the rank was killed after an owner's signal had ended its launcher."""
    kind = _own_death(state)
    return kind is Death.KILLED and _followed_its_launcher(state, kind)


def ended_with_its_launcher(state: RankState) -> bool:
    """Return True if the rank was killed at the moment at which an owner's signal ended its launcher.

    The kernel does that to a container whose first process ends. A script that ends all because a rank was killed does
    it as well, but then the other ranks have the signal.
    """
    if state.launcher_gone_seconds is None or state.launcher_status not in CANCELLED_STATUS:
        return False
    is_at_once = abs(state.launcher_gone_seconds - gone_seconds(state)) <= _LAUNCHER_LAG_SECONDS
    return is_at_once and not state.alive and state.exit_status in (None, _SIGKILL)


def awaits_its_launchers_status(state: RankState) -> bool:
    """Return True if the rank ended with or after its launcher, whose parent has not read its exit status yet.

    An older kernel tells neither status.
    """
    if state.alive or state.exit_status is None or state.launcher_status is not None:
        return False
    return launcher_has_ended(state)


def may_follow_its_launcher(state: RankState) -> bool:
    """Return True if the rank may have been killed because its launcher had ended: it had, or that is not known."""
    return not state.watched or (state.launcher_status is None and launcher_has_ended(state))


def launcher_has_ended(state: RankState) -> bool:
    """Return True if the launcher ended with the rank or before it."""
    if state.launcher_gone_seconds is None:
        return False
    return -_LAUNCHER_LAG_SECONDS <= state.launcher_gone_seconds - gone_seconds(state) <= _LAUNCHER_GRACE_SECONDS


def gone_seconds(state: RankState) -> float:
    """Return the seconds since the rank was seen dead, or since it left its last words and began to end."""
    return (state.leaving_seconds if state.alive else state.gone_seconds) or 0.0


def began_seconds(state: RankState) -> float:
    """Return the seconds since the rank began to end: since its last words, or else since it was seen dead."""
    return gone_seconds(state) if state.last_words_seconds is None else state.last_words_seconds
