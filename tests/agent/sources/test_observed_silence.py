"""Tests of the silence of a rank: time in which its agent did not look does not count. Times are in seconds."""

import pytest

from zmon.agent.sources.observed_silence import ObservedSilence

SECOND = 1_000_000_000


def silences(*scans, begin=0):
    """Return silence and unobserved time after each look at (time, last progress)."""
    silence = ObservedSilence(begin * SECOND)
    return [
        (silence.look(now * SECOND, progress * SECOND) / SECOND, silence.unobserved_ns / SECOND)
        for now, progress in scans
    ]


SILENCES = {
    "frequent looks observe all silence": ([(1, 0), (2, 0), (3, 0)], 0, [(1, 0), (2, 0), (3, 0)]),
    "a gap between looks counts one second": ([(1, 0), (61, 0), (62, 0)], 0, [(1, 0), (2, 59), (3, 59)]),
    "progress within a gap begins a new silence": ([(1, 0), (61, 2), (62, 2)], 0, [(1, 0), (1, 58), (2, 58)]),
    "progress ends the unobserved time": ([(61, 0), (62, 62)], 0, [(1, 60), (0, 0)]),
    # An agent that starts again finds a rank that hangs at once.
    "silence before the first look counts": ([(60, 10)], 60, [(50, 0)]),
}


@pytest.mark.parametrize(("scans", "begin", "expected"), SILENCES.values(), ids=SILENCES)
def test_only_observed_time_is_silence(scans, begin, expected):
    assert silences(*scans, begin=begin) == expected
