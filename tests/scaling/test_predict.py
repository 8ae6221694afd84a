"""Tests of predicted steps: collectives, self time, shared processors, imbalance, and links without a measurement."""

import random
from dataclasses import replace
from statistics import fmean, median_low

import pytest

from zmon.scaling.predict import Exchange, Link, Links, Work, bytes_over_links, op_seconds, predict, slowest_deviations
from zmon.schema.unknown import Unknown

FAST = Links(ranks_per_host=8, host=Link(400e9), net=Link(50e9))
SLOW = Links(ranks_per_host=1, host=None, net=Link(1e9, latency_seconds=0.001))
WITH_LATENCY = Links(ranks_per_host=4, host=Link(1e9, latency_seconds=0.001), net=Link(1e9, latency_seconds=0.010))
HOST_UNKNOWN = Links(ranks_per_host=4, host=None, net=Link(1e9))
EXCHANGES = {"all_to_all": Exchange(sample_bytes=10_000.0, calls=2), "all_reduce": Exchange(fixed_bytes=40e6)}
WORK = Work(sample_seconds=2e-6, fixed_seconds=0.001, exchanges=EXCHANGES)
SLOW_BY_OP = dict.fromkeys(EXCHANGES, SLOW)


@pytest.mark.parametrize("op", ["all_to_all", "all_reduce", "all_gather", "broadcast", "barrier"])
def test_collective_of_a_single_rank_takes_no_time(op):
    assert op_seconds(op, 1e9, 1, SLOW) == 0.0


@pytest.mark.parametrize(
    ("op", "num_bytes", "ranks", "links", "seconds"),
    [
        ("all_to_all", 1e6, 4, SLOW, 0.00075 + 0.001),  # one rank per host: (p - 1)/p · S/B and a latency
        ("reduce_scatter", 1e6, 4, SLOW, 0.00075 + 0.001),
        ("all_reduce", 1e6, 4, SLOW, 0.0015 + 0.001),
        ("all_gather", 1e6, 4, SLOW, 0.003 + 0.001),
        ("all_to_all", 1e6, 3, SLOW, 2 / 3 * 0.001 + 0.001),
        ("all_to_all", 1e9, 8, FAST, 7 / 8 * 1e9 / 400e9),  # within a host
        ("all_reduce", 1e9, 8, FAST, 2 * 7 / 8 * 1e9 / 400e9),
        ("all_to_all", 1e9, 64, FAST, 56 / 64 * 1e9 / 50e9),  # the slower part is between hosts
        ("all_to_all", 1e9, 64, replace(FAST, host=Link(1e9)), 7 / 64),  # … or within them
        ("all_reduce", 1e9, 64, FAST, 2 * 7 / 8 * 1e9 / 400e9 + 2 * 7 / 8 * 1e9 / 8 / 50e9),  # hierarchical
        ("barrier", 0.0, 4, WITH_LATENCY, 0.001),
        ("barrier", 0.0, 8, WITH_LATENCY, 0.011),
        ("all_to_all", 0.0, 8, WITH_LATENCY, 0.010),
        ("all_to_all", 1e6, 8, HOST_UNKNOWN, 0.0005),
        ("all_to_all", 1e6, 4, HOST_UNKNOWN, None),  # an unknown link of a host matters to jobs on a single one
    ],
)
def test_collective_takes_the_time_of_its_bytes_and_latency(op, num_bytes, ranks, links, seconds):
    expected = None if seconds is None else pytest.approx(seconds)
    assert op_seconds(op, num_bytes, ranks, links) == expected


def test_all_reduce_moves_the_bytes_of_reduce_scatter_and_all_gather():
    ranks = {"ranks": 64, "ranks_per_host": 8}
    reduced = bytes_over_links("all_reduce", 64e6, **ranks)
    scattered = bytes_over_links("reduce_scatter", 64e6, **ranks)
    gathered = bytes_over_links("all_gather", 64e6 / 64, **ranks)  # each rank hands in its part of the sum
    assert [a + b for a, b in zip(scattered, gathered, strict=True)] == pytest.approx(reduced)


def test_lone_rank_of_a_host_sends_most_bytes_between_hosts():
    """Nine ranks are on hosts of eight, and each rank sends a byte to each rank.

    A rank of the full host sends 7 bytes within its host. The ninth rank, alone on its host, sends 8 between hosts.
    """
    assert bytes_over_links("all_to_all", 9.0, ranks=9, ranks_per_host=8) == (7.0, 8.0)


def test_step_is_the_sum_of_self_time_and_exposed_time():
    step = predict(WORK, SLOW_BY_OP, 4, 4000)
    assert step.self_seconds == pytest.approx(0.001 + 1000 * 2e-6)
    assert step.exposed_seconds["all_to_all"] == pytest.approx(3 / 4 * 10_000 * 1000 / 1e9 + 2 * 0.001)
    assert step.seconds == pytest.approx(step.self_seconds + sum(step.exposed_seconds.values()))
    assert step.samples_per_second == pytest.approx(4000 / step.seconds)


def test_hidden_share_of_a_collective_is_not_exposed():
    exposed = {"all_reduce": 0.0, "all_to_all": 0.75}
    work = replace(WORK, exchanges={op: replace(EXCHANGES[op], exposed=ratio) for op, ratio in exposed.items()})
    partly_hidden, nothing_hidden = predict(work, SLOW_BY_OP, 4, 4000), predict(WORK, SLOW_BY_OP, 4, 4000)
    assert partly_hidden.exposed_seconds["all_reduce"] == 0.0
    assert partly_hidden.exposed_seconds["all_to_all"] == pytest.approx(
        0.75 * nothing_hidden.exposed_seconds["all_to_all"]
    )


def test_step_is_unknown_if_a_link_was_not_measured():
    one_host = dict.fromkeys(EXCHANGES, replace(FAST, net=None))
    assert not isinstance(predict(WORK, one_host, 8, 4096), Unknown)
    assert predict(WORK, one_host, 16, 4096) == Unknown("the speed of all_to_all between hosts was not measured")


def test_ranks_that_share_processors_are_slower():
    crowded = replace(WORK, ranks_per_host=8, processors_per_host=2)
    links = dict.fromkeys(EXCHANGES, FAST)
    two, four = (predict(crowded, links, n, 1000 * n) for n in (2, 4))
    assert two.self_seconds == pytest.approx(predict(WORK, links, 2, 2000).self_seconds)
    assert four.self_seconds == pytest.approx(2 * two.self_seconds)
    bytes_ratio = (2 * 3 / 4) / (2 * 1 / 2)  # 2(p-1)/p of four ranks and of two
    assert four.exposed_seconds["all_reduce"] == pytest.approx(2 * bytes_ratio * two.exposed_seconds["all_reduce"])


@pytest.mark.parametrize("ranks", [2, 3, 4, 8, 64])
def test_slowest_deviations_agree_with_a_simulation(ranks):
    draw = random.Random(ranks).gauss
    simulated = fmean(
        max(times) - median_low(times) for times in ([draw(0, 1) for _ in range(ranks)] for _ in range(4000))
    )
    assert slowest_deviations(ranks) == pytest.approx(simulated, rel=0.06)


def test_single_rank_has_no_imbalance():
    uneven = replace(WORK, spread=0.1)
    one, two, eight = (predict(uneven, SLOW_BY_OP, ranks, 100 * ranks).imbalance_seconds for ranks in (1, 2, 8))
    assert slowest_deviations(1) == one == 0.0
    assert eight > two > 0
