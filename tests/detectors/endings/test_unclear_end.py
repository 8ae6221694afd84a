"""Tests of ends that nobody watched: an owner's end and a fault look the same, so no rank is named."""

from dataclasses import replace

import pytest

from tests.build import dead, disconnected, killed, rank_state, waiting
from tests.detectors.stalls import detect

UNWATCHED = {"watched": False}


def without_launcher(rank, gone=6.0):
    """Return a rank of an older kernel that ended with its launcher."""
    return dead(rank, gone, launcher_gone_seconds=gone)


@pytest.mark.parametrize(
    "changes", [{"launcher_gone_seconds": 6.0}, UNWATCHED], ids=["an older kernel", "an agent that was restarted"]
)
def test_ranks_that_ended_together_without_words_or_status_are_a_warning_that_names_nobody(changes):
    finding = detect(*(dead(rank, 6.0, **changes) for rank in range(4)))
    assert (finding.cause, finding.severity, finding.ranks, finding.hosts) == ("unknown", "warning", (), ())
    assert "the owner ended the job, or something killed all its ranks at once" in finding.summary
    assert ("while no agent watched them" in finding.summary) == (changes == UNWATCHED)


def test_warning_waits_for_a_parent_that_is_slow_to_read_the_exit_statuses():
    assert detect(*(without_launcher(rank, 3.0) for rank in range(4))) is None


def test_rank_that_a_watching_agent_saw_end_first_is_named_without_a_status():
    finding = detect(without_launcher(2, 9.0), *(without_launcher(rank, 1.0) for rank in (0, 1, 3)))
    assert (finding.cause, finding.ranks) == ("rank_exited", (2,))


def test_estimated_ages_of_unwatched_ranks_prove_no_order():
    finding = detect(dead(2, 9.0, **UNWATCHED), *(dead(rank, 6.0, **UNWATCHED) for rank in (0, 1, 3)))
    assert (finding.cause, finding.ranks) == ("unknown", ())


def test_unwatched_rank_whose_peers_lost_their_connections_is_named():
    finding = detect(dead(1, 2.0, **UNWATCHED), *(disconnected(rank) for rank in (0, 2, 3)))
    assert (finding.cause, finding.ranks) == ("rank_exited", (1,))


def test_unwatched_rank_that_others_wait_for_is_named():
    finding = detect(dead(1, 2.0, **UNWATCHED), *(waiting(rank) for rank in (0, 2, 3)))
    assert (finding.cause, finding.ranks) == ("rank_exited", (1,))


def test_killed_ranks_are_named_where_their_status_is_known():
    finding = detect(*map(killed, range(4)))
    assert (finding.cause, finding.ranks) == ("rank_exited", (0, 1, 2, 3))


def test_watched_ranks_that_end_at_once_without_words_while_their_launcher_lives_are_named():
    """An owner's signal would have left last words."""
    finding = detect(*(dead(rank, 6.0) for rank in range(4)))
    assert (finding.cause, finding.severity, finding.ranks) == ("rank_exited", "critical", (0, 1, 2, 3))


def test_end_with_one_rank_that_no_agent_reports_is_not_unclear():
    """The missing rank may have ended first."""
    state = replace(rank_state(0), alive=False, gone_seconds=1.0, world_size=2)
    finding = detect(state)
    assert finding is None or finding.severity == "critical"
