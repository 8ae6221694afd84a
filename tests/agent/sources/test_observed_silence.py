"""Tests of the silence of a rank, of which only the time counts in which its agent looked. Times are in seconds."""

from zmon.agent.sources.rank_box import ObservedSilence

SECOND = 1_000_000_000


def silences(*looks, begin=0):
    """Return silence and unobserved time after each look at (time, last progress)."""
    silence = ObservedSilence(begin * SECOND)
    return [
        (silence.look(now * SECOND, renewed * SECOND) / SECOND, silence.unobserved_ns / SECOND)
        for now, renewed in looks
    ]


def test_frequent_looks_observe_all_silence():
    assert silences((1, 0), (2, 0), (3, 0)) == [(1, 0), (2, 0), (3, 0)]


def test_a_gap_between_looks_counts_one_second():
    assert silences((1, 0), (61, 0), (62, 0)) == [(1, 0), (2, 59), (3, 59)]


def test_progress_within_a_gap_begins_a_new_silence():
    assert silences((1, 0), (61, 2), (62, 2)) == [(1, 0), (1, 58), (2, 58)]


def test_progress_ends_the_unobserved_time():
    assert silences((61, 0), (62, 62)) == [(1, 60), (0, 0)]


def test_silence_before_the_first_look_counts():
    """An agent that starts again finds a rank that hangs at once."""
    assert silences((60, 10), begin=60) == [(50, 0)]
