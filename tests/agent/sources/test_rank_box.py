"""Tests of the times of a rank: of uninterruptible sleep, which restarts after a scan in another state, and imports."""

from dataclasses import replace

import pytest

from tests.boxes import eventually
from zmon.agent.sources import process_table
from zmon.schema.rank import EXECUTED


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


@pytest.mark.parametrize("letter", ["D", "S"], ids=["v1", "v2"])
def test_frozen_rank_is_stopped_once_it_stood_still_for_half_a_second(
    make_live_box, clock, scan_states, set_process_state, monkeypatch, letter
):
    make_live_box()
    set_process_state(letter)
    monkeypatch.setattr(process_table, "is_frozen", lambda state, folder, root: True)
    assert (scan_states()[0].process_state, scan_states()[0].stopped_seconds) == (letter, None)
    for seconds in (0.0, 2.0):
        clock.sleep(seconds or 0.5)
        state = scan_states()[0]
        assert (state.process_state, state.stopped_seconds) == ("F", pytest.approx(seconds))
        assert state.blocked_seconds is None
    monkeypatch.setattr(process_table, "is_frozen", lambda state, folder, root: False)
    assert (scan_states()[0].process_state, scan_states()[0].stopped_seconds) == (letter, None)


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


def test_imports_last_from_the_start_of_the_process_to_that_of_the_probe_also_once_it_is_dead(
    make_live_box, clock, scan_states
):
    box = make_live_box(start_ns=clock() + 50_000_000_000)
    seconds = scan_states()[0].import_seconds
    assert 50.0 <= seconds < 110.0  # the process is some milliseconds old
    box.process.end()
    assert scan_states()[0].import_seconds == seconds


def test_imports_of_a_rank_whose_lock_a_later_process_holds_are_unknown(make_live_box, clock, scan_states):
    make_live_box(start_ns=clock() - 3_600_000_000_000)
    assert scan_states()[0].import_seconds is None


def test_rank_that_becomes_another_program_has_ended_and_its_status_is_not_that_of_the_program(
    make_live_box, scan_states
):
    box = make_live_box()
    assert scan_states()[0].alive
    box.process.become_another_program()
    assert eventually(lambda: not scan_states()[0].alive)
    assert scan_states()[0].exit_status == EXECUTED
    box.process.end()
    assert scan_states()[0].exit_status == EXECUTED


@pytest.mark.parametrize("number", [9, 15])
def test_rank_that_a_signal_ends_is_no_other_program(make_live_box, scan_states, number):
    box = make_live_box()
    assert scan_states()[0].alive
    box.process.process.send_signal(number)
    assert eventually(lambda: not scan_states()[0].alive)  # it looks while the process ends
    box.process.end()
    assert scan_states()[0].exit_status != EXECUTED
