"""Tests of the increase of counters. It is known only if both values are known."""

from zmon.schema.host import increase, increased


def test_increase_is_unknown_for_decreased_or_unknown_counters():
    assert (increase(3, 5), increase(3, 3)) == (2, 0)
    assert [increase(*values) for values in ((3, 2), (None, 2), (2, None))] == [None] * 3


def test_only_counters_that_have_increased_are_listed():
    before, now = {"a": 1, "b": 5, "c": 2}, {"a": 4, "b": 1, "c": 2, "d": 7}
    assert increased(before, now) == {"a": 3}
    assert increased(before, now, absent=0) == {"a": 3, "d": 7}
