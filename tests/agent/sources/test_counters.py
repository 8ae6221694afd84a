"""Tests of counter totals, which never fall when a counter of a device wraps or restarts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zmon.agent.sources.sysfs import CounterTotals, has_wrapped


def totals_of(*values):
    totals = CounterTotals()
    return [totals.total("mlx5_0:1", "out_of_sequence", value) for value in values]


TOTALS = {
    "only grows": ([5, 5, 7, 2**40], [5, 5, 7, 2**40]),
    "wraps at 32 bits": ([2**32 - 10, 5, 6], [2**32 - 10, 2**32 + 5, 2**32 + 6]),
    # A counter that was cleared at its maximum looks the same. The total is then 1 too high, which does no harm.
    "wraps twice": ([2**32 - 1, 0, 2**31, 2**32 - 1, 1], [2**32 - 1, 2**32, 3 * 2**31, 2**33 - 1, 2**33 + 1]),
    "restarts from 0": ([1000, 3, 10, 2], [1000, 1003, 1010, 1012]),
    # The kernel sums the counters of all processors while they change.
    "dips by 1": ([1_000_000, 999_999, 1_000_000, 1_000_001], [1_000_000, 1_000_000, 1_000_000, 1_000_001]),
}


@pytest.mark.parametrize(("values", "totals"), TOTALS.values(), ids=TOTALS)
def test_total_continues_when_a_counter_wraps_or_restarts(values, totals):
    assert totals_of(*values) == totals


@pytest.mark.parametrize("last", [1000, 255, 65535, 2**31, 3 * 2**30, 2**33])
def test_fall_far_from_the_32_bit_maximum_is_not_a_wrap(last):
    assert not has_wrapped(last, 3)


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1))
def test_total_never_falls(values):
    totals = totals_of(*values)
    assert totals == sorted(totals)
    assert totals[0] == values[0]


def test_devices_and_counters_have_separate_totals():
    totals = CounterTotals()
    assert [totals.total("eth0", "rx_bytes", 9), totals.total("eth1", "rx_bytes", 5)] == [9, 5]
    assert [totals.total("eth0", "rx_bytes", 10), totals.total("eth0", "tx_bytes", 2)] == [10, 2]


def test_device_that_disappeared_is_forgotten():
    totals = CounterTotals()
    for device in ("eth0", "veth0"):
        totals.total(device, "rx_bytes", 1000)
    totals.keep({"eth0"})
    assert totals.total("veth0", "rx_bytes", 10) == 10
    assert totals.total("eth0", "rx_bytes", 10) == 1010
