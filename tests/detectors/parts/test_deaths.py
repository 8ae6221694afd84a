"""Test which ranks died by themselves and which are victims, in any order of observation."""

import itertools
from dataclasses import replace

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
from zmon.detectors.parts.deaths import Death, culprits, death, hung_ranks
from zmon.detectors.stall import Stall

TOGETHER = 0.3


def last_words(kind, type_="", message="", status=None):
    """Return a dead rank with these last words and this exit status."""
    return dead(0, last_words=words(kind, type_, message), exit_status=status)


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (dead(0), Death.KILLED),
        (killed(0), Death.KILLED),
        (dead(0, exit_status="signal SIGSEGV"), Death.KILLED),
        (dead(0, exit_status="exit code 1"), Death.KILLED),  # os._exit(1): no last words
        (last_words("exception", "builtins.SystemExit", "143"), Death.CANCELLED),
        (last_words("exception", "builtins.SystemExit", "3"), Death.RAISED),
        (dead(0, exit_status="signal SIGTERM"), Death.CANCELLED),
        (dead(0, exit_status="signal SIGINT"), Death.CANCELLED),
        (raised(0), Death.RAISED),
        (last_words("exception", "torch.OutOfMemoryError", "CUDA out of memory"), Death.RAISED),
        (disconnected(0), Death.VICTIM),
        (terminated(0), Death.CANCELLED),
        (last_words("signal", "SIGTERM"), Death.CANCELLED),
        (last_words("signal", "SIGTERM", status="signal SIGKILL"), Death.KILLED),  # it outlived SIGTERM
        (interrupted(0), Death.CANCELLED),
        (last_words("exception", "torch.distributed.elastic.multiprocessing.api.SignalException"), Death.CANCELLED),
        (finished(0), None),
        (last_words("exit"), None),  # its exit code is unknown, so there is no guess
        (last_words("exit", status="exit code 3"), Death.RAISED),
    ],
)
def test_death_follows_from_last_words_and_exit_status(state, expected):
    assert death(state) is expected


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
def test_what_gloo_and_nccl_say_of_a_lost_peer_marks_a_victim(message):
    assert death(last_words("exception", "builtins.RuntimeError", message)) is Death.VICTIM


@pytest.mark.parametrize("type_", ["torch.distributed.DistNetworkError", "torch.distributed.DistBackendError"])
def test_network_errors_of_torch_mark_a_victim_whatever_they_say(type_):
    assert death(last_words("exception", type_, "")) is Death.VICTIM


@pytest.mark.parametrize(
    "message",
    [
        "bad batch 17",
        "CUDA error: an illegal memory access was encountered",
        "mat1 and mat2 shapes cannot be multiplied (4x3 and 4x3)",
        "expected scalar type Float but found Double",
    ],
)
def test_errors_of_the_ranks_own_mark_no_victim(message):
    assert death(last_words("exception", "builtins.RuntimeError", message)) is Death.RAISED


def named(*states):
    """Return the ranks of the culprits."""
    deaths = [(state, how) for state in states if (how := death(state))]
    return [state.rank for state in culprits(deaths, TOGETHER)]


@pytest.mark.parametrize("order", [*itertools.permutations([1.00, 1.03, 1.06, 1.10])])
def test_killed_rank_is_named_in_whatever_order_it_and_its_victims_go(order):
    first, *others = order
    assert named(killed(2, first), *(disconnected(r, gone) for r, gone in zip((0, 1, 3), others, strict=True))) == [2]


def test_two_ranks_killed_at_once_are_both_named():
    assert named(killed(0, 1.0), killed(3, 1.05), disconnected(1), disconnected(2)) == [0, 3]


def test_first_of_two_exceptions_is_named():
    late = replace(raised(0, 1.2), last_words=words("exception", "builtins.KeyError", "x", NOW - 1.1))
    early = replace(raised(1, 1.1), last_words=words("exception", "builtins.ValueError", "y", NOW - 1.2))
    assert named(late, early, disconnected(2), disconnected(3)) == [1]


@pytest.mark.parametrize("gone", [1.0, 1.1, 1.2])
def test_exception_is_named_although_the_launcher_ended_the_others(gone):
    error = words("exception", "builtins.ValueError", "bad batch 17", NOW - 1.25)
    states = [terminated(0, 1.1), replace(raised(1, gone), last_words=error), terminated(2, 1.1), terminated(3, 1.1)]
    assert named(*states) == [1]


def test_exception_after_the_owners_sigterm_is_no_culprit():
    """A rank that is torn down may raise while it ends."""
    assert named(terminated(0, 1.2), terminated(1, 1.2), raised(2, 1.0), terminated(3, 1.2)) == []


def test_error_that_a_rank_survived_is_no_death():
    """The error was printed, not raised: it is the last one of the process, and the script went on to its end."""
    assert death(raised(0, exit_status="exit code 0")) is None


def test_no_rank_is_named_when_the_owner_cancels():
    assert named(*map(terminated, range(4))) == []
    assert named(*map(interrupted, range(4))) == []
    assert named(interrupted(0), interrupted(1), disconnected(2), disconnected(3)) == []


def test_victims_alone_have_no_culprit():
    assert named(*map(disconnected, range(4))) == []
    assert culprits([], TOGETHER) == []


def test_launchers_sigkill_long_after_the_first_death_is_not_the_cause():
    """torchrun kills a rank that has not ended 30 s after its SIGTERM."""
    assert named(raised(1, 31.0), terminated(0, 30.9), terminated(2, 30.9), killed(3, 1.0)) == [1]


def test_rank_that_takes_long_to_go_is_still_the_one_that_raised():
    """The interpreter tears down for seconds after the excepthook; the peers are gone long before its lock is."""
    slow = replace(raised(1, 1.0), last_words=words("exception", "builtins.ValueError", "bad batch 17", NOW - 4.0))
    assert named(slow, *(disconnected(r, 3.5) for r in (0, 2, 3))) == [1]


def test_rank_that_had_finished_and_is_ended_by_the_launcher_is_no_culprit():
    """It left its exit as last words, waited in teardown, and got the SIGTERM that another death caused."""
    goodbye = replace(terminated(3, 1.0), last_words=words("exit", time=NOW - 60))
    assert named(raised(1, 1.1), goodbye, terminated(0), terminated(2)) == [1]


def test_exception_on_a_host_whose_clock_is_ahead_is_named():
    """Times of last words can be compared on one host only."""
    ahead = words("exception", "builtins.ValueError", "bad batch 17", NOW - 1.2 + 30)
    states = [replace(raised(1, 1.2), host="node-b", last_words=ahead), terminated(0, 1.0), terminated(2, 1.0)]
    assert named(*states) == [1]


# -- on their way out --------------------------------------------------------------------------------------


def leaving(rank, seconds=1.0, message="bad batch 17", type_="builtins.ValueError", **changes):
    """Return a rank that has raised and whose process has not ended yet."""
    last_words = words("exception", type_, message, NOW - seconds)
    times = {"step_seconds": 5.0, "overdue_seconds": 3.5, "leaving_seconds": seconds}
    return rank_state(rank, **{"last_words": last_words, **times, **changes})


def detect(*ranks):
    return next(iter(Stall().detect(snapshot(*ranks))), None)


def test_rank_that_raised_is_named_although_its_process_hangs_on_its_way_out():
    finding = detect(leaving(1, 2.0), *(disconnected(rank) for rank in (0, 2, 3)))
    assert (finding.cause, finding.ranks, finding.severity) == ("rank_exited", (1,), "critical")
    assert "ValueError: bad batch 17 (process 1001 has not ended yet)" in finding.summary
    assert detect(leaving(1, 2.0), *map(waiting, (0, 2, 3))).ranks == (1,)


def test_victim_that_is_on_its_way_out_is_not_the_one_to_blame():
    lost = leaving(1, 2.0, DISCONNECT, "builtins.RuntimeError")
    assert detect(lost, killed(0), terminated(2), terminated(3)).ranks == (0,)


def test_rank_that_trains_after_its_excepthook_has_not_ended():
    survived = leaving(1, 60.0, step_seconds=5.0)
    assert detect(survived, *map(waiting, (0, 2, 3))).cause != "rank_exited"


def test_stall_ignores_an_error_while_the_others_still_move():
    assert detect(leaving(1, overdue_seconds=0.0), *map(rank_state, (0, 2, 3))) is None


def test_stall_reports_nothing_while_a_cancelled_job_comes_to_its_end():
    """After Ctrl-C some ranks hang in teardown until the launcher kills them."""
    cancelled = [leaving(rank, 4.0, "", "builtins.KeyboardInterrupt") for rank in (0, 1)]
    others = [interrupted(2), waiting(3)]
    assert detect(*cancelled, *others) is None
    assert detect(*(leaving(rank, 4.0, "", "builtins.KeyboardInterrupt") for rank in range(4))) is None


def test_cancelled_job_that_never_ends_is_a_stall():
    hanging = [leaving(rank, 90.0, "", "builtins.KeyboardInterrupt", step_seconds=95.0) for rank in range(4)]
    assert detect(*hanging).cause != "rank_exited"


# -- aborted by NCCL's watchdog ----------------------------------------------------------------------------

STOOD = {"step_seconds": 605.0, "state_seconds": 605.0}


def aborted(rank, gone=4.0, **changes):
    """The rank had issued all it could and waited for its GPU until the watchdog ended it, without last words."""
    issued = {"exit_status": "signal SIGABRT", "sequences": {"0": 301}, "device": f"GPU-{rank}"}
    return dead(rank, gone, **{**STOOD, **issued, **changes})


def hangs(rank, **changes):
    """Return a rank that is alive and has not issued the collective in which the others waited."""
    return rank_state(rank, **{**STOOD, "overdue_seconds": 603.5, "device": f"GPU-{rank}", **changes})


@pytest.mark.parametrize("status", ["signal SIGABRT", None], ids=["aborted", "unknown"])
def test_ranks_that_nccl_aborts_are_the_victims_of_the_one_that_hangs(status):
    finding = detect(*(aborted(rank, exit_status=status) for rank in (0, 1, 2)), hangs(3))
    assert (finding.cause, finding.ranks) == ("compute_hang", (3,))
    assert "3 of 4 ranks waited for it and are gone" in finding.summary


def test_one_that_reads_while_nccl_aborts_the_others_stalls_in_its_input():
    finding = detect(*map(aborted, (0, 1, 2)), hangs(3, phase="data"))
    assert (finding.cause, finding.ranks) == ("input_stall", (3,))


def test_rank_that_is_aborted_inside_a_collective_is_a_victim_too():
    inside = waiting(0).in_flight
    victims = [aborted(rank, in_flight=inside, sequences={"0": 300}) for rank in (0, 1, 2)]
    assert detect(*victims, hangs(3)).ranks == (3,)


def test_rank_that_hung_is_named_after_the_launcher_ended_it():
    """torchrun sends SIGTERM as soon as it sees the first of them gone, and SIGKILL half a minute later."""
    for how in (terminated, killed):
        last = how(3, 1.0, device="GPU-3", **STOOD)
        finding = detect(*map(aborted, (0, 1, 2)), last)
        assert (finding.cause, finding.ranks) == ("rank_exited", (3,))
        assert "the others had waited for it, and ended first" in finding.summary


@pytest.mark.parametrize(
    "others",
    [
        [hangs(rank, sequences={"0": 301}) for rank in (1, 2, 3)],
        [hangs(rank, step_seconds=3.0, overdue_seconds=1.5) for rank in (1, 2, 3)],
        [hangs(rank, device="cpu") for rank in (1, 2)],
    ],
    ids=["nobody behind", "stopped after it", "finished"],
)
def test_rank_that_aborts_by_itself_is_named(others):
    own = aborted(0, step_seconds=4.01, sequences={"0": 300})
    assert detect(own, *others).ranks == (0,)


@pytest.mark.parametrize("status", ["signal SIGKILL", "signal SIGSEGV", "exit code 1"])
def test_rank_that_ends_otherwise_is_named_although_another_is_behind(status):
    assert detect(aborted(0, exit_status=status), *map(hangs, (1, 2, 3))).ranks == (0,)


def test_rank_that_aborts_on_cpus_is_named_although_another_is_behind():
    """There is no watchdog on CPUs."""
    assert detect(aborted(0, device="cpu"), *(hangs(rank, device="cpu") for rank in (1, 2, 3))).ranks == (0,)


def test_stall_reports_nothing_when_the_owner_ends_a_job_that_hung():
    """The rank that hangs in Python ends at once, the others when the launcher kills them, without an exit status."""
    ranks = [
        terminated(3, 31.0, device="GPU-3", **STOOD),
        *(aborted(rank, 1.0, exit_status=None) for rank in (0, 1, 2)),
    ]
    assert hung_ranks(ranks) == []
