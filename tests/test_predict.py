"""A step is predicted by the formulas of the field; what cannot be told from the steps that are known is not."""

import pytest

from zmon.predict import Links, Work, all_reduce_seconds, all_to_all_seconds, fitted, predict

LINKS = Links(ranks_per_host=8, host_bytes_per_second=400e9, net_bytes_per_second=50e9)
SLOW = Links(ranks_per_host=1, host_bytes_per_second=400e9, net_bytes_per_second=1e9, latency_seconds=0.001)
WORK = Work(sample_seconds=2e-6, fixed_seconds=0.001, all_to_all_bytes=10_000.0, all_reduce_bytes=40e6)


def test_one_rank_exchanges_nothing():
    assert all_to_all_seconds(1e9, 1, SLOW) == all_reduce_seconds(1e9, 1, SLOW) == 0.0


@pytest.mark.parametrize("ranks", [2, 3, 4, 16])
def test_without_hosts_in_common_it_is_the_formula_of_the_field(ranks):
    """(p - 1)/p · S/B and 2(p - 1)/p · S/B, and a latency."""
    part = (ranks - 1) / ranks
    assert all_to_all_seconds(1e6, ranks, SLOW) == pytest.approx(part * 1e6 / 1e9 + 0.001)
    assert all_reduce_seconds(1e6, ranks, SLOW) == pytest.approx(2 * part * 1e6 / 1e9 + 0.001)


def test_within_a_host_its_own_links_are_used():
    assert all_to_all_seconds(1e9, 8, LINKS) == pytest.approx(7 / 8 * 1e9 / 400e9)
    assert all_reduce_seconds(1e9, 8, LINKS) == pytest.approx(2 * 7 / 8 * 1e9 / 400e9)


def test_between_hosts_an_exchange_takes_as_long_as_its_slower_share():
    assert all_to_all_seconds(1e9, 64, LINKS) == pytest.approx(56 / 64 * 1e9 / 50e9)
    quick = Links(ranks_per_host=8, host_bytes_per_second=1e9, net_bytes_per_second=50e9)
    assert all_to_all_seconds(1e9, 64, quick) == pytest.approx(7 / 64 * 1e9 / 1e9)


def test_between_hosts_a_sum_goes_through_the_host_and_then_by_parts():
    expected = 2 * 7 / 8 * 1e9 / 400e9 + 2 * 7 / 8 * 1e9 / 8 / 50e9
    assert all_reduce_seconds(1e9, 64, LINKS) == pytest.approx(expected)


def test_step_is_own_work_and_what_is_not_hidden():
    found = predict(WORK, SLOW, 4, 4000)
    assert found.own_seconds == pytest.approx(0.001 + 1000 * 2e-6)
    assert found.exposed_seconds["all_to_all"] == pytest.approx(3 / 4 * 10_000 * 1000 / 1e9 + 2 * 0.001)
    assert found.seconds == pytest.approx(found.own_seconds + sum(found.exposed_seconds.values()))
    assert found.samples_per_second == pytest.approx(4000 / found.seconds)


def test_what_is_hidden_is_not_waited_for():
    hidden = Work(2e-6, 0.001, 10_000.0, 40e6, hidden={"all_reduce": 1.0, "all_to_all": 0.25})
    found, all_of_it = predict(hidden, SLOW, 4, 4000), predict(WORK, SLOW, 4, 4000)
    assert found.exposed_seconds["all_reduce"] == 0.0
    assert found.exposed_seconds["all_to_all"] == pytest.approx(0.75 * all_of_it.exposed_seconds["all_to_all"])


def test_own_times_come_back_from_steps_of_two_sizes():
    steps = [(n, 1000, predict(WORK, SLOW, n, 1000).seconds) for n in (1, 2)]
    found = fitted(steps, WORK, SLOW)
    assert (found.sample_seconds, found.fixed_seconds) == (pytest.approx(2e-6), pytest.approx(0.001))
    assert predict(found, SLOW, 4, 1000).seconds == pytest.approx(predict(WORK, SLOW, 4, 1000).seconds)


def test_from_one_size_nothing_is_fixed():
    found = fitted([(2, 1000, predict(WORK, SLOW, 2, 1000).seconds)], WORK, SLOW)
    assert found.fixed_seconds == 0.0
    assert predict(found, SLOW, 2, 1000).seconds == pytest.approx(predict(WORK, SLOW, 2, 1000).seconds)
