"""Tests of deaths: which ranks died by themselves, and which are victims of another rank or were cancelled."""

import pytest

from tests.build import dead, disconnected, finished, interrupted, killed, raised, terminated, words
from zmon.job.aborts import hung_ranks, is_aborted_while_waiting
from zmon.job.ends import End, first_to_end, is_end_unclear
from zmon.job.rank_end import Way, way_of


def last_words(kind, type_="", message="", status=None):
    """Return a dead rank with these last words and this exit status."""
    return dead(0, last_words=words(kind, type_, message), exit_status=status)


DEATHS = {
    "nothing is known": (dead(0), Way.KILLED),
    "SIGKILL": (killed(0), Way.KILLED),
    "SIGSEGV": (dead(0, exit_status="signal SIGSEGV"), Way.KILLED),
    "os._exit(1): no last words": (dead(0, exit_status="exit code 1"), Way.KILLED),
    "SystemExit with the code of SIGTERM": (last_words("exception", "builtins.SystemExit", "143"), Way.CANCELLED),
    "SystemExit with another code": (last_words("exception", "builtins.SystemExit", "3"), Way.RAISED),
    "SIGTERM": (dead(0, exit_status="signal SIGTERM"), Way.CANCELLED),
    "SIGINT": (dead(0, exit_status="signal SIGINT"), Way.CANCELLED),
    "an error": (raised(0), Way.RAISED),
    "it printed the error and went on": (raised(0, exit_status="exit code 0"), Way.FINISHED),
    "out of GPU memory": (last_words("exception", "torch.OutOfMemoryError", "CUDA out of memory"), Way.RAISED),
    "a broken connection": (disconnected(0), Way.DISCONNECTED),
    "SIGTERM with last words": (terminated(0), Way.CANCELLED),
    "last words about SIGTERM, of an unknown status": (last_words("signal", "SIGTERM"), Way.CANCELLED),
    "it outlived SIGTERM": (last_words("signal", "SIGTERM", status="signal SIGKILL"), Way.KILLED),
    "KeyboardInterrupt": (interrupted(0), Way.CANCELLED),
    "torchrun was ended": (
        last_words("exception", "torch.distributed.elastic.multiprocessing.api.SignalException"), Way.CANCELLED),
    "a framework raises because of SIGTERM": (
        last_words("exception", "pytorch_lightning.utilities.exceptions.SIGTERMException"), Way.CANCELLED),
    "an exception whose name ends in SIGTERM": (last_words("exception", "job.NoSIGTERM"), Way.RAISED),
    "finished": (finished(0), Way.FINISHED),
    "its exit code is unknown, so there is no guess": (last_words("exit"), Way.FINISHED),
    "sys.exit(3)": (last_words("exit", status="exit code 3"), Way.RAISED),
    "the launcher was interrupted": (
        killed(0, launcher_gone_seconds=2.0, launcher_status="signal SIGINT"), Way.CANCELLED),
    "it raised because ranks that it had started failed": (raised(0, superseded=True), Way.FINISHED),
    "the launcher failed": (killed(0, launcher_gone_seconds=2.0, launcher_status="exit code 1"), Way.KILLED),
}  # fmt: skip


@pytest.mark.parametrize(("state", "expected"), DEATHS.values(), ids=DEATHS)
def test_way_of_a_death_follows_from_last_words_and_the_ends_of_rank_and_launcher(state, expected):
    assert way_of(state) is expected


def test_nobody_ended_first_if_all_ranks_are_victims_or_were_cancelled():
    """The tables of tests/detectors/endings have the jobs in which somebody did."""
    for how in (disconnected, terminated, interrupted):
        assert first_to_end([End(state, way_of(state)) for state in map(how, range(4))]) == []
    assert first_to_end([]) == []


def test_no_rank_hung_after_a_hung_job_was_cancelled():
    """The rank that hangs in Python ends at once, the others when the launcher kills them, without an exit status."""
    fields = {"device": "GPU-0", "step_seconds": 605.0, "state_seconds": 605.0}
    others = [dead(rank, 1.0, sequences={"0": 301}, **fields) for rank in (0, 1, 2)]
    assert hung_ranks([*others, terminated(3, 31.0, **fields)]) == []


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [pytest.param(0.005, True, id="moved"), pytest.param(605.0, False, id="stood still for as long as a timeout")],
)
def test_end_without_a_trace_is_unclear_unless_all_ranks_stood_still(seconds, expected):
    """Their launcher ended with them; ranks that stood still were aborted."""
    fields = {"device": "GPU-0", "step_seconds": seconds, "state_seconds": seconds, "launcher_gone_seconds": 1.0}
    ranks = [dead(rank, 1.0, **fields) for rank in range(4)]
    assert is_end_unclear([End(rank, way_of(rank)) for rank in ranks]) is expected
    assert not is_end_unclear([])


@pytest.mark.parametrize(
    ("seconds", "gone", "expected"),
    [(40.0, 1.0, True), (40.0, 20.0, False), (31.0, 1.0, False)],
    ids=["stood still for 39 s", "ended 20 s ago, after 20 s", "stood still for 30 s"],
)
def test_watchdog_aborts_ranks_that_did_the_same_thing_for_longer_than_a_timeout(seconds, gone, expected):
    state = dead(0, gone, device="GPU-0", exit_status="signal SIGABRT", state_seconds=seconds, lease_seconds=60.0)
    assert is_aborted_while_waiting(state) is expected
