"""Test that a rank which enters a collective with another size, and so makes others die, is named."""

import pytest

from tests.build import DISCONNECT, dead, disconnected, killed, rank_state, snapshot, terminated, waiting, words
from zmon.detectors.stall import Stall
from zmon.schema.rank import EnteredCollective, InFlight

ENFORCE = "[enforce fail at gloo/alltoallv.cc:138] inLengthPerRank[myRank] == outLengthPerRank[myRank]. "


def detect(*ranks):
    return next(iter(Stall().detect(snapshot(*ranks))), None)


def brought(num_bytes, op="all_reduce", sequence=301, then=()):
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
    return dead(rank, exit_status="signal SIGABRT", in_flight=inside, **{**brought(num_bytes, op), **changes})


def broke(rank, num_bytes, op="all_reduce", **changes):
    """Return a rank that died of its connection to an aborted one."""
    return disconnected(rank, **{**brought(num_bytes, op), **changes})


@pytest.mark.parametrize("size", [5000, 3000])
@pytest.mark.parametrize("op", ["all_reduce", "all_to_all"])
def test_rank_with_another_size_is_named_although_others_were_aborted(op, size):
    finding = detect(
        aborted(0, 4000, op), broke(1, size, op), terminated(2, **brought(4000, op)), waiting(3, **brought(4000, op))
    )
    assert (finding.cause, finding.ranks, finding.severity) == ("collective_mismatch", (1,), "critical")
    assert f"{op} of 4000 bytes: ranks 0, 2, 3; {op} of {size} bytes: ranks 1" in finding.summary
    assert "collective 301 of group 0" in finding.summary
    assert (finding.evidence.group, finding.evidence.sequence) == ("0", 301)


def test_rank_with_another_size_is_named_when_it_is_the_one_that_was_aborted():
    """It brought less: its peers' data was too long for it, and they may have gone on to the next collective."""
    further = {"then": (EnteredCollective("all_reduce", "0", 302, 64),)}
    others = [broke(rank, 4000, **brought(4000, **further)) for rank in (0, 2, 3)]
    assert detect(aborted(1, 3000), *others).ranks == (1,)


def test_rank_with_another_size_is_named_when_it_has_gone_on():
    further = brought(5000, then=(EnteredCollective("all_to_all", "0", 302, 64),))
    assert detect(aborted(0, 4000), broke(1, 5000, **further), broke(2, 4000), broke(3, 4000)).ranks == (1,)


def test_rank_whose_own_split_sizes_do_not_fit_is_the_mismatch():
    raised = dead(1, last_words=words("exception", "builtins.RuntimeError", ENFORCE), **brought(36, "all_to_all"))
    finding = detect(raised, *(broke(rank, 32, "all_to_all") for rank in (0, 2, 3)))
    assert (finding.cause, finding.ranks) == ("collective_mismatch", (1,))


def test_two_ranks_with_different_sizes_are_both_shown_without_a_culprit():
    finding = detect(aborted(0, 4000, world_size=2), broke(1, 5000, world_size=2))
    assert (finding.cause, finding.ranks, finding.severity) == ("unknown", (), "critical")
    assert "all_reduce of 4000 bytes: ranks 0; all_reduce of 5000 bytes: ranks 1" in finding.summary


def test_no_rank_is_named_where_the_sizes_of_an_all_to_all_differ_anyway():
    finding = detect(aborted(0, 10, "all_to_all"), *(broke(rank, 10 + rank, "all_to_all") for rank in (1, 2, 3)))
    assert (finding.cause, finding.ranks) == ("unknown", ())


def test_all_to_all_of_uneven_sizes_before_it_does_not_hide_the_mismatch():
    def last_two(rank, size):
        return {
            "entered": (
                EnteredCollective("all_reduce", "0", 301, size),
                EnteredCollective("all_to_all", "0", 300, rank),
            )
        }

    ranks = [broke(rank, 0, **last_two(rank, 4000)) for rank in (0, 2)]
    finding = detect(aborted(3, 4000, **last_two(3, 4000)), broke(1, 0, **last_two(1, 5000)), *ranks)
    assert (finding.cause, finding.ranks) == ("collective_mismatch", (1,))


def test_death_is_a_warning_while_the_launcher_may_restart_it():
    ranks = [aborted(0, 4000), broke(1, 5000), broke(2, 4000), broke(3, 4000)]
    assert detect(*(rank_state(**{**vars_of(r), "max_restarts": 3}) for r in ranks)).severity == "warning"


def vars_of(state):
    return {name: getattr(state, name) for name in state.__slots__}


@pytest.mark.parametrize("how", [killed, dead])
def test_killed_rank_is_no_mismatch_though_the_sizes_of_its_all_to_all_differ(how):
    """Sizes matter only if gloo aborted a rank or an error says so."""
    inside = InFlight("all_to_all", "0", 301, 10, 1.0)
    victim = how(2, in_flight=inside, **brought(10, "all_to_all"))
    finding = detect(victim, *(broke(rank, 20, "all_to_all") for rank in (0, 1, 3)))
    assert (finding.cause, finding.ranks) == ("rank_exited", (2,))


def test_abort_of_a_rank_whose_size_is_the_others_is_its_own():
    finding = detect(aborted(2, 4000), *(broke(rank, 4000) for rank in (0, 1, 3)))
    assert (finding.cause, finding.ranks) == ("rank_exited", (2,))


def test_ordinary_exception_is_no_mismatch_though_its_rank_had_another_size():
    raised = dead(1, last_words=words("exception", "builtins.ValueError", "bad batch 17"), **brought(5000))
    finding = detect(raised, *(broke(rank, 4000) for rank in (0, 2, 3)))
    assert (finding.cause, finding.ranks) == ("rank_exited", (1,))


def test_ranks_on_gpus_that_a_watchdog_aborts_are_no_mismatch():
    """NCCL compares no sizes; its watchdog aborts ranks that waited for half an hour."""
    others = [broke(rank, 20 + rank, "all_to_all", device=f"GPU-{rank}") for rank in (0, 1, 3)]
    assert detect(aborted(2, 10, "all_to_all", device="GPU-2"), *others).cause == "rank_exited"


def test_lost_connection_is_no_size_mismatch():
    assert "size" not in DISCONNECT
    assert detect(*(broke(rank, 1000 + rank) for rank in range(4))).cause == "unknown"
