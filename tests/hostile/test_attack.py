"""Tests of an agent and a hub under attack, from outside. They answer other clients, and free what they used.

The table of `python -m bench.attack` has the times, which depend on the machine and its other load.
"""

import pytest

from bench.attack import attack

pytestmark = pytest.mark.e2e
SECONDS = 6.0  # duration of the attack


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    """1,100 half-sent requests, ten bodies of 100 MB and 50 readers of large answers at each daemon, all at once."""
    return attack(tmp_path_factory.mktemp("attack"), SECONDS, num_ranks=2)


@pytest.fixture(params=["agent", "hub"])
def attacked(outcome, request):
    """The measurements of one of the two attacked daemons."""
    return getattr(outcome, request.param)


def test_every_scrape_is_answered_under_attack(attacked):
    assert attacked.scrape_seconds
    assert attacked.failures == []


def test_hub_finds_the_death_of_a_rank_under_attack(outcome):
    assert outcome.finding_seconds is not None


def test_large_answers_are_given_and_half_sent_requests_closed_under_attack(outcome):
    for statuses in outcome.statuses.values():
        assert statuses.get("large 200")
        assert statuses.get("half closed")


def test_files_memory_and_log_stay_bounded_under_attack(attacked):
    assert attacked.most_files < 1000  # each daemon may open 1,024
    assert attacked.has_closed_files
    assert attacked.most_bytes < 400 << 20
    assert attacked.log.stat().st_size < 1_000_000
