"""Tests of the silence of a rank, of which only the time counts in which its agent looked. Times are in seconds."""

import pytest

from zmon.agent.sources.rank_box import ObservedSilence

SECOND = 1_000_000_000


def silences(*looks, begin=0):
    """Return silence and unobserved time after each look at (time, last progress)."""
    silence = ObservedSilence(begin * SECOND)
    return [
        (silence.look(now * SECOND, renewed * SECOND) / SECOND, silence.unobserved_ns / SECOND)
        for now, renewed in looks
    ]


@pytest.mark.parametrize(
    ("looks", "begin", "expected"),
    [
        ([(1, 0), (2, 0), (3, 0)], 0, [(1, 0), (2, 0), (3, 0)]),
        ([(1, 0), (61, 0), (62, 0)], 0, [(1, 0), (2, 59), (3, 59)]),
        ([(1, 0), (61, 2), (62, 2)], 0, [(1, 0), (1, 58), (2, 58)]),
        ([(61, 0), (62, 62)], 0, [(1, 60), (0, 0)]),
        ([(60, 10)], 60, [(50, 0)]),  # an agent that starts again finds a rank that hangs at once
    ],
    ids=[
        "frequent looks observe all silence",
        "a gap between looks counts one second",
        "progress within a gap begins a new silence",
        "progress ends the unobserved time",
        "silence before the first look counts",
    ],
)
def test_silence(looks, begin, expected):
    assert silences(*looks, begin=begin) == expected
