"""Tests of ranks that died because one of them entered a collective with another size."""

from dataclasses import replace

import pytest

from tests.build import (
    DISCONNECT,
    dead,
    disconnected,
    job_steps,
    killed,
    rank_state,
    snapshot,
    terminated,
    waiting,
    words,
)
from zmon.detectors.stall import Stall
from zmon.schema.rank import EnteredCollective, InFlight

ENFORCE = "[enforce fail at gloo/alltoallv.cc:138] inLengthPerRank[myRank] == outLengthPerRank[myRank]. "


def detect(*ranks):
    return next(iter(Stall().detect(snapshot(*ranks))), None)


def last_collectives(num_bytes, op="all_reduce", sequence=301, then=()):
    """Return the last two collectives of a rank, the latest first."""
    return {
        "entered": (
            *then,
            EnteredCollective(op, "0", sequence, num_bytes),
            EnteredCollective("all_reduce", "0", sequence - 1, 64),
        )[:2]
    }


def aborted(rank, num_bytes, op="all_reduce", **changes):
    """Return a rank that gloo aborted because it received too much; only stderr says so."""
    inside = InFlight(op, "0", 301, num_bytes, 1.0)
    fields = {"exit_status": "signal SIGABRT", "in_flight": inside, **last_collectives(num_bytes, op)}
    return dead(rank, **{**fields, **changes})


def disconnected_rank(rank, num_bytes, op="all_reduce", **changes):
    """Return a rank that died of its connection to an aborted one."""
    return disconnected(rank, **{**last_collectives(num_bytes, op), **changes})


@pytest.mark.parametrize("size", [5000, 3000])
@pytest.mark.parametrize("op", ["all_reduce", "all_to_all"])
def test_rank_with_another_size_is_named_although_others_were_aborted(op, size):
    finding = detect(
        aborted(0, 4000, op),
        disconnected_rank(1, size, op),
        terminated(2, **last_collectives(4000, op)),
        waiting(3, **last_collectives(4000, op)),
    )
    assert (finding.cause, finding.ranks, finding.severity) == ("collective_mismatch", (1,), "critical")
    assert f"{op} of 4000 bytes: ranks 0, 2, 3; {op} of {size} bytes: rank 1" in finding.summary
    assert "collective 301 of group 0" in finding.summary
    assert (finding.evidence.group, finding.evidence.sequence) == ("0", 301)


def test_rank_with_another_size_is_named_if_gloo_aborted_that_rank():
    """Rank 1 entered with a smaller size, so gloo aborted it. Its peers may have entered the next collective."""
    further = {"then": (EnteredCollective("all_reduce", "0", 302, 64),)}
    others = [disconnected_rank(rank, 4000, **last_collectives(4000, **further)) for rank in (0, 2, 3)]
    assert detect(aborted(1, 3000), *others).ranks == (1,)


def test_rank_with_another_size_is_named_if_that_rank_has_gone_on():
    further = last_collectives(5000, then=(EnteredCollective("all_to_all", "0", 302, 64),))
    assert detect(
        aborted(0, 4000), disconnected_rank(1, 5000, **further), disconnected_rank(2, 4000), disconnected_rank(3, 4000)
    ).ranks == (1,)


def test_rank_whose_own_split_sizes_do_not_fit_is_the_mismatch():
    raised = dead(
        1, last_words=words("exception", "builtins.RuntimeError", ENFORCE), **last_collectives(36, "all_to_all")
    )
    finding = detect(raised, *(disconnected_rank(rank, 32, "all_to_all") for rank in (0, 2, 3)))
    assert (finding.cause, finding.ranks) == ("collective_mismatch", (1,))


def test_two_ranks_with_different_sizes_are_both_shown_without_a_culprit():
    finding = detect(aborted(0, 4000, world_size=2), disconnected_rank(1, 5000, world_size=2))
    assert (finding.cause, finding.ranks, finding.severity) == ("unknown", (), "critical")
    assert "all_reduce of 4000 bytes: rank 0; all_reduce of 5000 bytes: rank 1" in finding.summary


def test_no_rank_is_named_if_sizes_of_an_all_to_all_may_differ():
    finding = detect(
        aborted(0, 10, "all_to_all"), *(disconnected_rank(rank, 10 + rank, "all_to_all") for rank in (1, 2, 3))
    )
    assert (finding.cause, finding.ranks) == ("unknown", ())


def test_uneven_all_to_all_before_does_not_hide_the_mismatch():
    def last_two(rank, size):
        return {
            "entered": (
                EnteredCollective("all_reduce", "0", 301, size),
                EnteredCollective("all_to_all", "0", 300, rank),
            )
        }

    ranks = [disconnected_rank(rank, 0, **last_two(rank, 4000)) for rank in (0, 2)]
    finding = detect(aborted(3, 4000, **last_two(3, 4000)), disconnected_rank(1, 0, **last_two(1, 5000)), *ranks)
    assert (finding.cause, finding.ranks) == ("collective_mismatch", (1,))


def test_mismatch_is_a_warning_while_the_launcher_may_restart_the_job():
    ranks = [aborted(0, 4000), disconnected_rank(1, 5000), disconnected_rank(2, 4000), disconnected_rank(3, 4000)]
    assert detect(*(rank_state(**{**fields_of(r), "max_restarts": 3}) for r in ranks)).severity == "warning"


def fields_of(state):
    return {name: getattr(state, name) for name in state.__slots__}


@pytest.mark.parametrize("how", [killed, dead])
def test_killed_rank_is_no_mismatch_though_the_sizes_of_its_all_to_all_differ(how):
    """Sizes matter only if gloo aborted a rank or an error says so."""
    inside = InFlight("all_to_all", "0", 301, 10, 1.0)
    victim = how(2, in_flight=inside, **last_collectives(10, "all_to_all"))
    finding = detect(victim, *(disconnected_rank(rank, 20, "all_to_all") for rank in (0, 1, 3)))
    assert (finding.cause, finding.ranks) == ("rank_exited", (2,))


def test_rank_with_another_size_is_named_although_no_exit_status_is_known():
    """Kernels before 6.15 do not say that gloo aborted rank 0."""
    others = [disconnected_rank(rank, size) for rank, size in ((1, 5000), (2, 4000), (3, 4000))]
    finding = detect(aborted(0, 4000, exit_status=None), *others)
    assert (finding.cause, finding.ranks) == ("collective_mismatch", (1,))


def test_nobody_is_named_if_several_ranks_without_exit_status_ended_in_an_uneven_all_to_all():
    unknown = [aborted(rank, 4000, "all_to_all", exit_status=None) for rank in (0, 2)]
    others = [disconnected_rank(rank, size, "all_to_all") for rank, size in ((1, 4000), (3, 5000))]
    finding = detect(*unknown, *others)
    assert (finding.cause, finding.ranks, finding.severity) == ("unknown", (), "critical")
    assert "all_to_all of 5000 bytes: rank 3" in finding.summary


@pytest.mark.parametrize("status", [None, "signal SIGTERM", "signal SIGKILL"])
def test_job_that_was_ended_as_a_whole_in_an_uneven_all_to_all_died_of_no_mismatch(status):
    """Its launcher ended with it. Nothing shows the exit statuses of its ranks."""
    sizes = (6912, 6912, 6400, 6400)
    launcher = {"launcher_status": status, "launcher_gone_seconds": 4.0, "gone_seconds": 4.0}
    ranks = [aborted(rank, size, "all_to_all", exit_status=None, **launcher) for rank, size in enumerate(sizes)]
    finding = detect(*ranks)
    assert finding is None or (finding.cause != "collective_mismatch" and "disagree" not in finding.summary)


def test_rank_with_another_size_of_an_all_to_all_is_named_if_the_sizes_had_been_equal():
    unknown = [aborted(rank, 4000, "all_to_all", exit_status=None) for rank in (0, 2)]
    others = [disconnected_rank(rank, size, "all_to_all") for rank, size in ((1, 4000), (3, 5000))]
    job = replace(snapshot(*unknown, *others), steps=job_steps(16))
    finding, *_ = Stall().detect(job)
    assert (finding.cause, finding.ranks) == ("collective_mismatch", (3,))


def test_several_killed_ranks_are_named_if_all_sizes_are_equal():
    unknown = [aborted(rank, 4000, "all_to_all", exit_status=None) for rank in (0, 2)]
    others = [disconnected_rank(rank, 4000, "all_to_all") for rank in (1, 3)]
    assert detect(*unknown, *others).ranks == (0, 2)


def test_aborted_rank_with_the_same_size_is_a_rank_that_exited():
    finding = detect(aborted(2, 4000), *(disconnected_rank(rank, 4000) for rank in (0, 1, 3)))
    assert (finding.cause, finding.ranks) == ("rank_exited", (2,))


def test_rank_with_another_size_is_named_if_the_collective_was_asynchronous():
    """Rank 0 had issued the collective and did not wait for it yet when gloo's thread aborted it."""
    others = [disconnected_rank(rank, size) for rank, size in ((1, 5000), (2, 4000), (3, 4000))]
    finding = detect(aborted(0, 4000, in_flight=None), *others)
    assert (finding.cause, finding.ranks) == ("collective_mismatch", (1,))


def test_rank_that_aborts_outside_collectives_is_named_if_all_sizes_are_equal():
    finding = detect(aborted(0, 4000, in_flight=None), *(disconnected_rank(rank, 4000) for rank in (1, 2, 3)))
    assert (finding.cause, finding.ranks) == ("rank_exited", (0,))


def test_ordinary_exception_is_no_mismatch_though_its_rank_had_another_size():
    raised = dead(1, last_words=words("exception", "builtins.ValueError", "bad batch 17"), **last_collectives(5000))
    finding = detect(raised, *(disconnected_rank(rank, 4000) for rank in (0, 2, 3)))
    assert (finding.cause, finding.ranks) == ("rank_exited", (1,))


def test_ranks_on_gpus_that_a_watchdog_aborts_are_no_mismatch():
    """NCCL compares no sizes; its watchdog aborts ranks that waited for half an hour."""
    others = [disconnected_rank(rank, 20 + rank, "all_to_all", device=f"GPU-{rank}") for rank in (0, 1, 3)]
    assert detect(aborted(2, 10, "all_to_all", device="GPU-2"), *others).cause == "rank_exited"


def test_lost_connection_is_no_size_mismatch():
    assert "size" not in DISCONNECT
    assert detect(*(disconnected_rank(rank, 1000 + rank) for rank in range(4))).cause == "connection_lost"


@pytest.mark.parametrize("status", ["signal SIGABRT", None], ids=["aborted", "unknown"])
def test_aborted_rank_is_not_named_before_its_peer_shows_what_it_entered(status):
    """The report of the living rank is from before the abort, up to a second old."""
    old = rank_state(1, host="node-b", **last_collectives(64, sequence=300))
    assert detect(aborted(0, 4000, exit_status=status), old) is None
    new = waiting(1, host="node-b", **last_collectives(5000))
    assert detect(aborted(0, 4000, exit_status=status), new).ranks == ()
    assert detect(aborted(0, 4000, gone=1.6, exit_status=status), old).ranks == (0,)


def test_killed_rank_is_named_at_once_although_its_peer_has_not_entered_the_collective():
    old = rank_state(1, host="node-b", **last_collectives(64, sequence=300))
    assert detect(aborted(0, 4000, exit_status="signal SIGKILL"), old).ranks == (0,)
