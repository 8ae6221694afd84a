"""Tests of the time until torch ends a collective by itself: never negative, and unknown unless the rank has it."""

import pytest

from tests.build import rank_state
from zmon.job.own_timeouts import abort_seconds
from zmon.schema.rank import InFlight

LABEL, SHORT = {"collective_timeout_seconds": "600"}, {"collective_timeout_seconds": "30.5"}


def rank_in(seconds, group="0", labels=LABEL, rank=0, **changes):
    """Return a rank that has been in a collective of this group for these seconds."""
    return rank_state(rank, labels=labels, in_flight=InFlight("all_reduce", group, 7, 8, seconds), **changes)


CASES = {
    "the rank that waits longest is the first": ([rank_in(188.0), rank_in(10.0, rank=1)], 412.0),
    "ranks with timeouts of their own": ([rank_in(10.0), rank_in(10.0, labels=SHORT)], 20.5),
    "no rank is in a collective": ([rank_state(labels=LABEL)], None),
    "the rank does not have its timeout": ([rank_in(188.0, labels={})], None),
    "another group has another timeout": ([rank_in(188.0, group="3")], None),
    "a moment is left": ([rank_in(599.5)], 0.5),
    "the last moment is over": ([rank_in(600.0)], None),
    "the time is over, so torch does not end it": ([rank_in(700.0)], None),
    "one rank is over its time": ([rank_in(700.0), rank_in(590.0, rank=1)], 10.0),
    "a rank that is gone waits for nothing": ([rank_in(188.0, alive=False)], None),
    "no rank": ([], None),
}


@pytest.mark.parametrize(("ranks", "seconds"), CASES.values(), ids=CASES)
def test_time_until_torch_ends_a_collective_is_the_shortest_of_the_ranks_or_unknown(ranks, seconds):
    assert abort_seconds(ranks) == (None if seconds is None else pytest.approx(seconds))


@pytest.mark.parametrize("text", ["", "-1", "nan", "inf", "1e999", "9" * 400, "600 s", "600\n"])
def test_label_with_any_text_is_no_timeout(text):
    assert rank_state(labels={"collective_timeout_seconds": text}).collective_timeout_seconds is None
