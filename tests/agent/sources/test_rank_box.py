"""Tests of the time in uninterruptible sleep: it restarts once a scan sees the process in another state."""

from dataclasses import replace

import pytest

from zmon.agent.sources import rank_box


@pytest.fixture
def in_state(monkeypatch):
    """Set the state of the rank's process in /proc."""
    real = rank_box.process_stat

    def set_state(letter):
        monkeypatch.setattr(rank_box, "process_stat", lambda *args: replace(real(*args), state=letter))

    return set_state


def test_uninterruptible_sleep_lasts_from_the_first_scan_that_saw_it(live, clock, states, in_state):
    live()
    in_state("D")
    assert states()[0].blocked_seconds == pytest.approx(0.0)
    clock.sleep(1.5)
    state = states()[0]
    assert (state.process_state, state.blocked_seconds, state.stopped_seconds) == ("D", pytest.approx(1.5), None)


def test_rank_that_woke_up_in_between_counts_from_its_last_sleep(live, clock, states, in_state):
    live()
    for letter in "DSD":
        clock.sleep(1.0)
        in_state(letter)
        asleep = states()[0].blocked_seconds
    assert asleep == pytest.approx(0.0)
    in_state("S")
    assert states()[0].blocked_seconds is None


def test_dead_rank_has_no_time_in_sleep(live, states, in_state):
    box = live()
    in_state("D")
    states()
    box.process.end()
    assert states()[0].blocked_seconds is None
