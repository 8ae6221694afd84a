"""Tests of the fit of bandwidth and latency to measured durations."""

from random import Random

import pytest

from zmon.scaling.bandwidth import HOST, NET, MeasuredLinks, TimedMessage, links
from zmon.scaling.predict import Link, Links, op_seconds

SIZES = [1 << power for power in range(10, 27, 2)]
ONE_RANK_PER_HOST = Links(ranks_per_host=1, host=None, net=Link(1.2e9, 2e-4))
ONE_HOST = Links(ranks_per_host=4, host=Link(8e9, 5e-5), net=None)


def timed(op, group, ranks, link, noise=lambda: 1.0):
    """Return timings of messages of all sizes, each multiplied by a draw of `noise`."""
    return [TimedMessage(op, group, ranks, size, op_seconds(op, size, ranks, link) * noise()) for size in SIZES]


def of_four_ranks(ranks_per_host, timings):
    """Return the measurements of four ranks."""
    return MeasuredLinks("gloo", ranks=4, ranks_per_host=ranks_per_host, timed=timings)


BOTH_OPS = ("all_to_all", "all_reduce")
TWO_HOSTS = MeasuredLinks(
    backend="gloo",
    ranks=8,
    ranks_per_host=4,
    timed=[t for op in BOTH_OPS for t in timed(op, HOST, 4, ONE_HOST) + timed(op, NET, 2, ONE_RANK_PER_HOST)],
)


@pytest.mark.parametrize("op", BOTH_OPS)
def test_fit_recovers_bandwidth_and_latency(op):
    fitted = links(TWO_HOSTS)[op]
    assert fitted.ranks_per_host == 4
    assert (fitted.host.bytes_per_second, fitted.host.latency_seconds) == pytest.approx((8e9, 5e-5))
    assert (fitted.net.bytes_per_second, fitted.net.latency_seconds) == pytest.approx((1.2e9, 2e-4))


def test_fit_of_noisy_durations_is_within_a_tenth():
    draw = Random(3)
    noisy = timed("all_to_all", NET, 4, ONE_RANK_PER_HOST, lambda: draw.lognormvariate(0, 0.1))
    fitted = links(of_four_ranks(ranks_per_host=1, timings=noisy))["all_to_all"]
    assert fitted.net.bytes_per_second == pytest.approx(1.2e9, rel=0.1)
    assert fitted.net.latency_seconds == pytest.approx(2e-4, rel=0.1)


def test_links_without_timings_are_unknown():
    fitted = links(of_four_ranks(ranks_per_host=4, timings=timed("all_to_all", HOST, 4, ONE_HOST)))["all_to_all"]
    assert fitted.net is None
    assert links(of_four_ranks(ranks_per_host=4, timings=[])) == {}


def test_fit_of_a_single_size_has_no_latency():
    (message,) = [t for t in timed("all_reduce", HOST, 4, ONE_HOST) if t.num_bytes == 1 << 20]
    fitted = links(of_four_ranks(ranks_per_host=4, timings=[message]))["all_reduce"]
    assert fitted.host.latency_seconds == 0.0
    assert op_seconds("all_reduce", 1 << 20, 4, fitted) == pytest.approx(message.seconds)


def test_bus_bandwidth_is_defined_as_in_nccl_tests():
    for op, share in (("all_reduce", 1.5), ("all_to_all", 0.75)):  # 2(p - 1)/p and (p - 1)/p of four ranks
        message = TimedMessage(op, HOST, ranks=4, num_bytes=1 << 20, seconds=0.001)
        assert message.bus_bytes_per_second == pytest.approx(share * (1 << 20) / 0.001)
