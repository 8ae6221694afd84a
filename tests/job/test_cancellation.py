"""Tests of exceptions with which a rank obeys a signal: they end a launch well, and other exceptions do not."""

import pytest

from tests.build import rank_state, snapshot, words
from zmon.job.cancellation import is_cancellation
from zmon.job.restarts import ended_well

OBEYED = [
    ("builtins.KeyboardInterrupt", ""),
    ("builtins.SystemExit", "143"),
    ("torch.distributed.elastic.multiprocessing.api.SignalException", "Process 4 got signal: 15"),
    ("pytorch_lightning.utilities.exceptions.SIGTERMException", ""),
]
RAISED = [("builtins.SystemExit", "1"), ("builtins.ValueError", "143"), ("job.NoSIGTERM", ""), ("", "")]


@pytest.mark.parametrize(("type_", "message"), OBEYED)
def test_exception_that_obeys_a_signal_is_a_cancellation_and_ends_well(type_, message):
    assert is_cancellation(words("exception", type_, message))
    assert ended_well(ended(type_, message))


@pytest.mark.parametrize(("type_", "message"), RAISED)
def test_other_exception_is_none_and_does_not_end_well(type_, message):
    assert not is_cancellation(words("exception", type_, message))
    assert not ended_well(ended(type_, message))


def test_exception_of_a_rank_that_exits_with_0_is_no_failure():
    assert ended_well(ended("builtins.SystemExit", "0", exit_status="exit code 0"))


def test_signal_is_no_exception():
    assert not is_cancellation(words("signal", "SIGTERM", ""))


def ended(type_, message, **changes):
    """Return a launch whose ranks ended with this exception, a minute ago."""
    ends = {"alive": False, "process_state": None, "gone_seconds": 60.0, "exit_status": "exit code 1", **changes}
    return snapshot(*(rank_state(rank, last_words=words("exception", type_, message), **ends) for rank in range(4)))
