"""Tests of the time that a rank spends in uninterruptible sleep, which restarts after a scan in another state."""

from dataclasses import replace

import pytest

from zmon.agent.sources import process_table


@pytest.fixture
def set_process_state(monkeypatch):
    """Set the state of the rank's process in /proc."""
    real = process_table.process_stat

    def set_state(letter):
        def stat(*args):
            present = real(*args)
            return present and replace(present, state=letter)

        monkeypatch.setattr(process_table, "process_stat", stat)

    return set_state


def test_uninterruptible_sleep_is_timed_from_its_first_scan(make_live_box, clock, scan_states, set_process_state):
    make_live_box()
    set_process_state("D")
    assert scan_states()[0].blocked_seconds == pytest.approx(0.0)
    clock.sleep(1.5)
    state = scan_states()[0]
    assert (state.process_state, state.blocked_seconds, state.stopped_seconds) == ("D", pytest.approx(1.5), None)


def test_rank_that_woke_between_scans_is_timed_from_its_last_sleep_and_a_dead_one_has_none(
    make_live_box, clock, scan_states, set_process_state
):
    box = make_live_box()
    for letter, seconds in (("D", 0.0), ("S", None), ("D", 0.0)):
        clock.sleep(1.0)
        set_process_state(letter)
        assert scan_states()[0].blocked_seconds == (seconds and pytest.approx(seconds))
    box.process.end()
    assert scan_states()[0].blocked_seconds is None
