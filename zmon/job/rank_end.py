"""Classify the way in which one rank ended: from its last words, its exit status and the end of its launcher. Pure.

A killed rank leaves no last words. A rank that raises leaves its exception. A peer whose connection broke leaves a
network error. A rank that its launcher ends leaves a signal.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from zmon.job.connection_errors import could_not_meet, is_broken_connection
from zmon.job.facts import GRACE_SECONDS, LOOK_SECONDS, ONE_LOOK_SECONDS, launcher_lead
from zmon.job.signals import CANCELLED_CODES, is_cancellation
from zmon.schema.rank import EXECUTED, RankState

CANCELLED_STATUS = tuple(f"signal {name}" for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT"))  # torchrun's list
CANCELLED_EXIT = tuple(f"exit code {code}" for code in CANCELLED_CODES)
KILLED_STATUS = "signal SIGKILL"
# A rank that ends because its launcher has ended makes no further step. The step in which it is interrupted may end.
_LAST_STEP_SECONDS = 2.0
_OWNERS_STATUS = CANCELLED_STATUS[1:]  # no launcher sends these because a rank has failed


class Way(Enum):
    """The way in which a rank ended."""

    KILLED = "killed"
    RAISED = "raised"
    HUNG = "hung until others gave up"
    DISCONNECTED = "disconnected"
    NOT_MET = "never reached the others"
    CANCELLED = "cancelled"
    FINISHED = "finished"


def launcher_of(state: RankState) -> tuple[str, str]:
    """Return host and process of the launcher of a rank."""
    return state.host, state.launcher


def way_of(state: RankState) -> Way:
    """Return the way in which a rank ended that is dead or has left its last words."""
    way = _way_by_itself(state)
    return Way.CANCELLED if _followed_its_launcher(state, way) else way


def _way_by_itself(state: RankState) -> Way:
    """Return the way that the rank's own exit status and last words show, whatever happened to its launcher."""
    words, status = state.last_words, state.exit_status
    if _has_returned(state) or state.superseded:
        return Way.FINISHED
    if status == EXECUTED:
        return Way.FINISHED  # whatever the other program does
    if status == "exit code 0" and not _raised_in_a_failed_program(state):
        return Way.FINISHED  # its last words do not matter then
    if words is None:
        return Way.CANCELLED if status in (*CANCELLED_STATUS, *CANCELLED_EXIT) else Way.KILLED
    if words.kind == "signal":
        return Way.CANCELLED if status in (None, *CANCELLED_STATUS) else Way.KILLED
    if words.kind == "exit":
        if status is None or status in CANCELLED_STATUS:
            return Way.FINISHED  # it had finished, and its launcher ended the teardown
        if status == KILLED_STATUS:
            return Way.KILLED  # while it was ending
        return Way.CANCELLED if status in CANCELLED_EXIT else Way.RAISED
    if is_cancellation(words) or words.sender_pid is not None:  # its handler ended it, or its peers were quicker
        return Way.CANCELLED
    if could_not_meet(state):
        return Way.NOT_MET
    if not is_broken_connection(words):
        return Way.RAISED
    # A rank that waits in a collective handles a signal only when its peers are gone.
    return Way.CANCELLED if status in (*CANCELLED_EXIT, *_OWNERS_STATUS) else Way.DISCONNECTED


def _has_returned(state: RankState) -> bool:
    """Return True if the job's function returned to the framework that ran it, which ends the process as it likes.

    Ray ends its actors with exit code 1, Spark and Dask with a signal. A rank that trains again has not returned.
    """
    words = state.last_words
    return words is not None and words.kind == "exit" and words.type != "" and state.activity == "done"


def _raised_in_a_failed_program(state: RankState) -> bool:
    """Return True if the rank left cleanly after an exception, and the program that started it failed.

    A pool of processes passes the exceptions of its workers to the program, which may handle them and go on.
    """
    words, program = state.last_words, state.launcher_status or ""
    is_failure = program.startswith("exit code ") and program not in ("exit code 0", *CANCELLED_EXIT)
    return is_failure and words is not None and words.kind == "exception" and not is_cancellation(words)


def _followed_its_launcher(state: RankState, way: Way) -> bool:
    """Return True if an owner's signal ended the launcher, and the rank was killed or left cleanly because of it.

    The processes of `torch.multiprocessing.spawn` swallow the interrupt that they get then, and exit with code 0. A
    rank that had left its last words was ending already, so it need not have ended after its launcher.
    """
    lead = launcher_lead(state)
    if lead is None or state.launcher_status not in CANCELLED_STATUS:
        return False
    if state.last_words is None and lead < ONE_LOOK_SECONDS:
        return False
    return way is Way.FINISHED or (way is Way.KILLED and state.exit_status in (None, KILLED_STATUS))


def left_with_launchers(ranks: Sequence[RankState]) -> list[RankState]:
    """Return the living ranks that left their loops because an owner's signal ended the launchers of all ranks.

    The processes of `torch.multiprocessing.spawn` swallow the interrupt that they get then, and take their time to end.
    """
    if any(r.launcher_status not in CANCELLED_STATUS for r in ranks):
        return []
    return [r for r in ranks if r.alive and r.activity == "done" and _left_with_its_launcher(r)]


def _left_with_its_launcher(state: RankState) -> bool:
    """Return True if a rank left its loop when its launcher ended, or soon afterwards without another step."""
    gone = state.launcher_gone_seconds
    if gone is None or not -LOOK_SECONDS <= gone - state.activity_seconds <= GRACE_SECONDS:
        return False
    return gone - state.step_seconds <= _LAST_STEP_SECONDS


def ended_with_its_launcher(state: RankState) -> bool:
    """Return True if the rank was killed at the moment at which an owner's signal ended its launcher.

    The kernel does that to a container whose first process ends. A script that ends all because a rank was killed does
    it as well, but then the other ranks have the signal.
    """
    lead = launcher_lead(state)
    is_at_once = lead is not None and lead <= LOOK_SECONDS and state.launcher_status in CANCELLED_STATUS
    return is_at_once and not state.alive and state.exit_status in (None, KILLED_STATUS)


def has_left_cleanly(state: RankState) -> bool:
    """Return True if the rank finished, or looks so: a process that swallows an interrupt exits with code 0."""
    return _way_by_itself(state) is Way.FINISHED


def was_killed_after_its_launcher(state: RankState) -> bool:
    """Return True if an owner's signal ended the launcher, and the rank was killed because of it."""
    way = _way_by_itself(state)
    return way is Way.KILLED and _followed_its_launcher(state, way)


def awaits_its_launchers_status(state: RankState) -> bool:
    """Return True if the rank ended with or after its launcher, whose parent has not read its exit status yet.

    An older kernel tells neither status.
    """
    is_known = state.exit_status is not None and state.launcher_status is None
    return not state.alive and is_known and launcher_lead(state) is not None
