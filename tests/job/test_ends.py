"""Tests of deaths: which ranks died by themselves, and which are victims of another rank or were cancelled."""

import itertools

import pytest

from tests.build import (
    DISCONNECT,
    NOW,
    dead,
    disconnected,
    finished,
    interrupted,
    killed,
    raised,
    rank_state,
    snapshot,
    terminated,
    waiting,
    words,
)
from zmon.detectors.stall import Stall
from zmon.job.ends import End, Way, first_to_end, way_of


def last_words(kind, type_="", message="", status=None):
    """Return a dead rank with these last words and this exit status."""
    return dead(0, last_words=words(kind, type_, message), exit_status=status)


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (dead(0), Way.KILLED),
        (killed(0), Way.KILLED),
        (dead(0, exit_status="signal SIGSEGV"), Way.KILLED),
        (dead(0, exit_status="exit code 1"), Way.KILLED),  # os._exit(1): no last words
        (last_words("exception", "builtins.SystemExit", "143"), Way.CANCELLED),
        (last_words("exception", "builtins.SystemExit", "3"), Way.RAISED),
        (dead(0, exit_status="signal SIGTERM"), Way.CANCELLED),
        (dead(0, exit_status="signal SIGINT"), Way.CANCELLED),
        (raised(0), Way.RAISED),
        (last_words("exception", "torch.OutOfMemoryError", "CUDA out of memory"), Way.RAISED),
        (disconnected(0), Way.DISCONNECTED),
        (terminated(0), Way.CANCELLED),
        (last_words("signal", "SIGTERM"), Way.CANCELLED),
        (last_words("signal", "SIGTERM", status="signal SIGKILL"), Way.KILLED),  # it outlived SIGTERM
        (interrupted(0), Way.CANCELLED),
        (last_words("exception", "torch.distributed.elastic.multiprocessing.api.SignalException"), Way.CANCELLED),
        (finished(0), Way.FINISHED),
        (last_words("exit"), Way.FINISHED),  # its exit code is unknown, so there is no guess
        (last_words("exit", status="exit code 3"), Way.RAISED),
    ],
)
def test_death_follows_from_last_words_and_exit_status(state, expected):
    assert way_of(state) is expected


@pytest.mark.parametrize(
    "message",
    [
        DISCONNECT,
        "[gloo/transport/tcp/pair.cc:144] recv: Connection reset by peer",
        "[../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation",
        "Read error [127.0.0.1]:1234: Connection reset by peer",
        "NCCL error: remote process exited or there was a network error, NCCL version 2.21.5 ncclRemoteError: A call",
        "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.",
        "write error: Broken pipe",
    ],
)
def test_rank_with_a_broken_connection_is_a_victim(message):
    assert way_of(last_words("exception", "builtins.RuntimeError", message)) is Way.DISCONNECTED


@pytest.mark.parametrize("type_", ["torch.distributed.DistNetworkError", "torch.distributed.DistBackendError"])
def test_rank_with_a_network_error_of_torch_is_a_victim(type_):
    assert way_of(last_words("exception", type_, "")) is Way.DISCONNECTED


@pytest.mark.parametrize(
    "message",
    [
        "bad batch 17",
        "CUDA error: an illegal memory access was encountered",
        "mat1 and mat2 shapes cannot be multiplied (4x3 and 4x3)",
        "expected scalar type Float but found Double",
    ],
)
def test_rank_with_an_error_of_its_own_is_no_victim(message):
    assert way_of(last_words("exception", "builtins.RuntimeError", message)) is Way.RAISED


def culprit_ranks(*states):
    """Return the ranks of the culprits."""
    return [state.rank for state in first_to_end([End(state, way_of(state)) for state in states])]


@pytest.mark.parametrize("order", [*itertools.permutations([1.00, 1.03, 1.06, 1.10])])
def test_killed_rank_is_named_in_any_order_of_deaths(order):
    first, *others = order
    assert culprit_ranks(
        killed(2, first), *(disconnected(r, gone) for r, gone in zip((0, 1, 3), others, strict=True))
    ) == [2]


def test_two_ranks_killed_at_once_are_both_named():
    assert culprit_ranks(killed(0, 1.0), killed(3, 1.05), disconnected(1), disconnected(2)) == [0, 3]


def test_first_of_two_exceptions_is_named():
    late = raised(0, 1.2, last_words=words("exception", "builtins.KeyError", "x", NOW - 1.1))
    early = raised(1, 1.1, last_words=words("exception", "builtins.ValueError", "y", NOW - 1.2))
    assert culprit_ranks(late, early, disconnected(2), disconnected(3)) == [1]


@pytest.mark.parametrize("gone", [1.0, 1.1, 1.2])
def test_exception_is_named_although_the_launcher_ended_the_others(gone):
    error = words("exception", "builtins.ValueError", "bad batch 17", NOW - 1.25)
    states = [terminated(0, 1.1), raised(1, gone, last_words=error), terminated(2, 1.1), terminated(3, 1.1)]
    assert culprit_ranks(*states) == [1]


def test_rank_that_raises_after_a_cancellation_is_no_culprit():
    """A rank that is cancelled may raise while it ends."""
    assert culprit_ranks(terminated(0, 1.2), terminated(1, 1.2), raised(2, 1.0), terminated(3, 1.2)) == []


def test_error_that_a_rank_survived_is_no_way_of():
    """The error was printed, and the script went on and exited with code 0."""
    assert way_of(raised(0, exit_status="exit code 0")) is Way.FINISHED


def test_no_rank_is_named_after_a_cancellation():
    assert culprit_ranks(*map(terminated, range(4))) == []
    assert culprit_ranks(*map(interrupted, range(4))) == []
    assert culprit_ranks(interrupted(0), interrupted(1), disconnected(2), disconnected(3)) == []


def test_victims_alone_have_no_culprit():
    assert culprit_ranks(*map(disconnected, range(4))) == []
    assert first_to_end([]) == []


def test_rank_that_the_launcher_killed_later_is_no_culprit():
    """torchrun kills a rank that has not ended 30 s after its SIGTERM."""
    assert culprit_ranks(raised(1, 31.0), terminated(0, 30.9), terminated(2, 30.9), killed(3, 1.0)) == [1]


def test_rank_that_raised_is_named_although_its_process_ended_last():
    """The interpreter takes seconds to end after the excepthook, so the peers may end first."""
    slow = raised(1, 1.0, last_words=words("exception", "builtins.ValueError", "bad batch 17", NOW - 4.0))
    assert culprit_ranks(slow, *(disconnected(r, 3.5) for r in (0, 2, 3))) == [1]


def test_finished_rank_that_the_launcher_terminates_is_no_culprit():
    """Its last words are an exit. While it was ending, the launcher sent SIGTERM because of another death."""
    goodbye = terminated(3, 1.0, last_words=words("exit", time=NOW - 60))
    assert culprit_ranks(raised(1, 1.1), goodbye, terminated(0), terminated(2)) == [1]


def test_exception_on_a_host_whose_clock_is_ahead_is_named():
    """Times of last words can be compared on one host only."""
    ahead = words("exception", "builtins.ValueError", "bad batch 17", NOW - 1.2 + 30)
    states = [
        raised(1, 1.2, host="node-b", last_words=ahead, last_words_seconds=1.2),
        terminated(0, 1.0),
        terminated(2, 1.0),
    ]
    assert culprit_ranks(*states) == [1]


# -- processes that have not ended yet ---------------------------------------------------------------------


def leaving(rank, seconds=1.0, message="bad batch 17", type_="builtins.ValueError", **changes):
    """Return a rank that has raised and whose process has not ended yet."""
    last_words = words("exception", type_, message, NOW - seconds)
    times = {"step_seconds": 5.0, "overdue_seconds": 3.5, "leaving_seconds": seconds}
    return rank_state(rank, **{"last_words": last_words, **times, **changes})


def detect(*ranks):
    return next(iter(Stall().detect(snapshot(*ranks))), None)


def test_rank_that_raised_is_named_although_its_process_has_not_ended():
    finding = detect(leaving(1, 2.0), *(disconnected(rank) for rank in (0, 2, 3)))
    assert (finding.cause, finding.ranks, finding.severity) == ("rank_exited", (1,), "critical")
    assert "ValueError: bad batch 17 (process 1001 has not ended yet)" in finding.summary
    assert detect(leaving(1, 2.0), *map(waiting, (0, 2, 3))).ranks == (1,)


def test_victim_whose_process_has_not_ended_is_no_culprit():
    lost = leaving(1, 2.0, DISCONNECT, "builtins.RuntimeError")
    assert detect(lost, killed(0), terminated(2), terminated(3)).ranks == (0,)


def test_rank_that_trains_on_after_an_exception_has_not_exited():
    survived = leaving(1, 60.0, step_seconds=5.0)
    assert detect(survived, *map(waiting, (0, 2, 3))).cause != "rank_exited"


def test_stall_ignores_an_exception_while_other_ranks_move():
    assert detect(leaving(1, overdue_seconds=0.0), *map(rank_state, (0, 2, 3))) is None


SLOW = {"lease_seconds": 60.0, "overdue_seconds": 0.0}  # steps of two seconds


@pytest.mark.parametrize(
    ("since", "stepped", "cause"),
    [(13.0, 14.0, "connection_lost"), (8.0, 9.0, None), (13.0, 2.0, None)],
    ids=["nothing moves since", "the others may finish their step", "the others go on"],
)
def test_rank_whose_process_hangs_after_a_broken_connection_has_ended_before_the_lease_is_over(since, stepped, cause):
    lost = leaving(1, since, DISCONNECT, "builtins.RuntimeError", **{**SLOW, "step_seconds": since + 1})
    finding = detect(lost, *(waiting(rank, stepped, **SLOW) for rank in (0, 2, 3)))
    assert (finding and finding.cause) == cause


def test_stall_reports_nothing_while_a_cancelled_job_ends():
    """After Ctrl-C some ranks hang in teardown until the launcher kills them."""
    cancelled = [leaving(rank, 4.0, "", "builtins.KeyboardInterrupt") for rank in (0, 1)]
    others = [interrupted(2), waiting(3)]
    assert detect(*cancelled, *others) is None
    assert detect(*(leaving(rank, 4.0, "", "builtins.KeyboardInterrupt") for rank in range(4))) is None


def test_cancelled_job_that_hangs_is_a_stall():
    hanging = [leaving(rank, 90.0, "", "builtins.KeyboardInterrupt", step_seconds=95.0) for rank in range(4)]
    assert detect(*hanging).cause != "rank_exited"
