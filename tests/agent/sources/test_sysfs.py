"""Tests of numbers in attribute files in /sys, and of totals of counters that wrap or restart."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zmon.agent.sources.sysfs import Attributes, CounterTotals


def read_number(folder, content):
    """Return the number in a file with this content, and the fault of its device."""
    (folder / "symbol_error").write_bytes(content)
    with Attributes("mlx5_3:1", str(folder)) as files:
        return files.number("symbol_error"), files.fault


def test_number_of_64_bits_is_read(tmp_path):
    assert read_number(tmp_path, b"18446744073709551615\n") == (2**64 - 1, None)


@pytest.mark.parametrize("content", [b"", b"many", b"1 2", b"0x10", b"1e3", b"9" * 4000, b"\0\0", b"\xff\xfe\x80"])
def test_malformed_file_is_unknown_and_a_fault(tmp_path, content):
    number, fault = read_number(tmp_path, content)
    assert number is None
    assert fault.startswith("mlx5_3:1: symbol_error has odd content: ")
    assert len(fault) < 250


def totals_of(*values):
    """Return the total of a counter after each of its values."""
    totals = CounterTotals()
    return [totals.total("mlx5_0:1", "out_of_sequence", value) for value in values]


TOTALS = {
    "only grows": ([5, 5, 7, 2**40], [5, 5, 7, 2**40]),
    "wraps at 32 bits": ([2**32 - 10, 5, 6], [2**32 - 10, 2**32 + 5, 2**32 + 6]),
    # A counter that was cleared at its maximum looks the same. The total is then 1 too high, which does no harm.
    "wraps twice": ([2**32 - 1, 0, 2**31, 2**32 - 1, 1], [2**32 - 1, 2**32, 3 * 2**31, 2**33 - 1, 2**33 + 1]),
    "restarts from 0": ([1000, 3, 10, 2], [1000, 1003, 1010, 1012]),
    "restarts from 0 far from the maximum of 32 bits": ([3 * 2**30, 3], [3 * 2**30, 3 * 2**30 + 3]),
    "restarts from 0 above 32 bits": ([2**33, 3], [2**33, 2**33 + 3]),
    # The kernel sums the counters of all processors while they change.
    "dips by 1": ([1_000_000, 999_999, 1_000_000, 1_000_001], [1_000_000, 1_000_000, 1_000_000, 1_000_001]),
}


@pytest.mark.parametrize(("values", "totals"), TOTALS.values(), ids=TOTALS)
def test_total_continues_when_a_counter_wraps_or_restarts(values, totals):
    assert totals_of(*values) == totals


@settings(deadline=None)  # on a busy machine an example takes any time
@given(st.lists(st.integers(0, 2**64 - 1), min_size=1))
def test_total_never_falls(values):
    totals = totals_of(*values)
    assert totals == sorted(totals)
    assert totals[0] == values[0]
