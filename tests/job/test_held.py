"""Tests of the time for which nothing has run on held GPUs, and of what is left there."""

import pytest

from zmon.job.held import ENDED, HUNG, IDLE_PROCESS, NEVER_RAN, UNKNOWN, HolderState, Holding, Idle

NOTHING = HolderState((), busy=False, has_process=False, ran=False)
BUSY = HolderState((), busy=True, has_process=True, ran=True)
PROCESS = HolderState((), busy=False, has_process=True, ran=True)
RANKS = HolderState((0.0, 0.0), busy=False, has_process=True, ran=True)
LEFT = HolderState((), busy=False, has_process=False, ran=True)  # its dead ranks are still known
BLIND = HolderState((), busy=None, has_process=False, ran=False)


def overdue(*seconds):
    return HolderState(seconds, busy=True, has_process=True, ran=True)


@pytest.mark.parametrize(
    ("looks", "idle"),
    [
        ([NOTHING], Idle(NEVER_RAN, 10.0)),
        ([NOTHING, NOTHING], Idle(NEVER_RAN, 20.0)),
        ([RANKS, LEFT], Idle(ENDED, 10.0)),
        ([BUSY, NOTHING, NOTHING], Idle(ENDED, 20.0)),
        ([BUSY, PROCESS], Idle(IDLE_PROCESS, 10.0)),
        ([PROCESS], Idle(IDLE_PROCESS, 10.0)),
        ([overdue(5.0, 3.0)], Idle(HUNG, 3.0)),
        ([overdue(5.0, 8.0), LEFT], Idle(ENDED, 15.0)),
    ],
    ids=[
        "never ran", "never ran, for longer", "ranks are gone", "an unwatched process is gone",
        "a process computes no more", "a process has not computed yet",
        "all ranks are overdue, and their kernels spin", "ranks hung and were killed",
    ],
)  # fmt: skip
def test_what_is_left_and_for_how_long(looks, idle):
    holding = Holding(0.0, is_new=True)
    answers = [holding.idle(10.0 * (number + 1), look) for number, look in enumerate(looks)]
    assert answers[-1] == idle


@pytest.mark.parametrize(
    "look", [BUSY, BLIND, RANKS, overdue(900.0, 0.0)], ids=["a kernel runs", "unknown", "ranks", "one rank is on time"]
)
def test_quiet_while_something_runs_or_that_is_unknown_and_the_time_begins_anew(look):
    holding = Holding(0.0, is_new=True)
    holding.idle(890.0, NOTHING)
    assert holding.idle(900.0, look) is None
    assert holding.idle(910.0, NOTHING).seconds == 10.0


def test_agent_that_has_just_started_does_not_claim_that_nothing_ever_ran():
    holding = Holding(0.0, is_new=False)
    assert holding.idle(10.0, NOTHING) == Idle(UNKNOWN, 10.0)
    assert holding.idle(20.0, BUSY) is None
    assert holding.idle(30.0, NOTHING) == Idle(ENDED, 10.0)
