"""Tests of the time for which nothing has run on the GPUs that a job holds, and of what is left on them."""

import pytest

from zmon.job.held import ENDED, HUNG, IDLE_PROCESS, NEVER_RAN, UNKNOWN, HolderState, Holding, Idle

NOTHING = HolderState((), busy=False, has_process=False, ran=False)
BUSY = HolderState((), busy=True, has_process=True, ran=True)
PROCESS = HolderState((), busy=False, has_process=True, ran=True)
RANKS = HolderState((0.0, 0.0), busy=False, has_process=True, ran=True)
LEFT = HolderState((), busy=False, has_process=False, ran=True)  # its dead ranks are still known
BLIND = HolderState((), busy=None, has_process=False, ran=False)


def overdue(*seconds):
    """Return the state of GPUs whose ranks are overdue by these seconds, while a kernel runs."""
    return HolderState(seconds, busy=True, has_process=True, ran=True)


@pytest.mark.parametrize(
    ("states", "idle"),
    [
        pytest.param([NOTHING], Idle(NEVER_RAN, 10.0), id="never ran"),
        pytest.param([NOTHING, NOTHING], Idle(NEVER_RAN, 20.0), id="never ran, for longer"),
        pytest.param([RANKS, LEFT], Idle(ENDED, 10.0), id="ranks are gone"),
        pytest.param([BUSY, NOTHING, NOTHING], Idle(ENDED, 20.0), id="an unwatched process is gone"),
        pytest.param([BUSY, PROCESS], Idle(IDLE_PROCESS, 10.0), id="a process computes no more"),
        pytest.param([PROCESS], Idle(IDLE_PROCESS, 10.0), id="a process has not computed yet"),
        pytest.param([overdue(5.0, 3.0)], Idle(HUNG, 3.0), id="all ranks are overdue, and their kernels spin"),
        pytest.param([overdue(5.0, 8.0), LEFT], Idle(ENDED, 15.0), id="ranks hung and were killed"),
    ],
)
def test_idle_gpus_are_reported_with_what_is_left_on_them(states, idle):
    holding = Holding(0.0, is_new=True)
    answers = [holding.idle(10.0 * (number + 1), state) for number, state in enumerate(states)]
    assert answers[-1] == idle


QUIET = {"a kernel runs": BUSY, "unknown": BLIND, "ranks": RANKS, "one rank is on time": overdue(900.0, 0.0)}


@pytest.mark.parametrize("state", QUIET.values(), ids=QUIET)
def test_quiet_while_something_runs_or_may_run(state):
    holding = Holding(0.0, is_new=True)
    holding.idle(890.0, NOTHING)
    assert holding.idle(900.0, state) is None


@pytest.mark.parametrize("state", QUIET.values(), ids=QUIET)
def test_idle_time_begins_anew_once_nothing_runs_any_more(state):
    holding = Holding(0.0, is_new=True)
    holding.idle(890.0, NOTHING)
    holding.idle(900.0, state)
    assert holding.idle(910.0, NOTHING).seconds == 10.0


def test_agent_that_has_just_started_does_not_claim_that_nothing_ever_ran():
    holding = Holding(0.0, is_new=False)
    assert holding.idle(10.0, NOTHING) == Idle(UNKNOWN, 10.0)
    assert holding.idle(20.0, BUSY) is None
    assert holding.idle(30.0, NOTHING) == Idle(ENDED, 10.0)
