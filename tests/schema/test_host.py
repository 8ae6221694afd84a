"""Tests of the increase of counters. It is known only if both values are known."""

from zmon.schema.host import rise, risen


def test_rise_is_unknown_for_decreased_or_unknown_counters():
    assert (rise(3, 5), rise(3, 3), rise(3, 2), rise(None, 2), rise(2, None)) == (2, 0, None, None, None)


def test_risen_lists_only_increased_counters():
    before, now = {"a": 1, "b": 5, "c": 2}, {"a": 4, "b": 1, "c": 2, "d": 7}
    assert risen(before, now) == {"a": 3}
    assert risen(before, now, absent=0) == {"a": 3, "d": 7}
