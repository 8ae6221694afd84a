"""Tests of one rank in its box: how long it is blocked or frozen, how long it imported, and whether it has ended."""

import signal
from dataclasses import replace

import pytest

from tests.boxes import eventually
from zmon.agent.sources import process_table
from zmon.schema.rank import EXECUTED


@pytest.fixture
def set_process_state(monkeypatch):
    """Return a function that sets the state of the rank's process in /proc."""
    real = process_table.process_stat

    def set_state(letter):
        def stat(*args):
            present = real(*args)
            return present and replace(present, state=letter)

        monkeypatch.setattr(process_table, "process_stat", stat)

    return set_state


def test_blocked_time_begins_with_the_first_scan_in_uninterruptible_sleep(
    make_live_box, clock, scan_states, set_process_state
):
    make_live_box()
    set_process_state("D")
    assert scan_states()[0].blocked_seconds == pytest.approx(0.0)
    clock.sleep(1.5)
    state = scan_states()[0]
    assert (state.process_state, state.blocked_seconds, state.stopped_seconds) == ("D", pytest.approx(1.5), None)


@pytest.mark.parametrize("letter", ["D", "S"], ids=["v1", "v2"])
def test_frozen_rank_is_stopped_after_half_a_second_without_progress(
    make_live_box, clock, scan_states, set_process_state, monkeypatch, letter
):
    make_live_box()
    set_process_state(letter)
    monkeypatch.setattr(process_table, "is_frozen", lambda folder, state, root: True)
    assert (scan_states()[0].process_state, scan_states()[0].stopped_seconds) == (letter, None)
    for pause, stopped_seconds in ((0.5, 0.0), (2.0, 2.0)):
        clock.sleep(pause)
        state = scan_states()[0]
        assert (state.process_state, state.stopped_seconds) == ("F", pytest.approx(stopped_seconds))
        assert state.blocked_seconds is None
    monkeypatch.setattr(process_table, "is_frozen", lambda folder, state, root: False)
    assert (scan_states()[0].process_state, scan_states()[0].stopped_seconds) == (letter, None)


def test_blocked_time_begins_anew_after_each_wake_up_and_ends_with_the_rank(
    make_live_box, clock, scan_states, set_process_state
):
    box = make_live_box()
    for letter, blocked_seconds in (("D", 0.0), ("S", None), ("D", 0.0)):
        clock.sleep(1.0)
        set_process_state(letter)
        assert scan_states()[0].blocked_seconds == blocked_seconds
    box.holder.end()
    assert scan_states()[0].blocked_seconds is None


def test_import_time_of_a_rank_stays_known_after_its_end(make_live_box, clock, scan_states):
    box = make_live_box(start_ns=clock() + 50_000_000_000)
    seconds = scan_states()[0].import_seconds
    assert 49.99 <= seconds < 110.0  # the start of a process is known to 0.01 s
    box.holder.end()
    assert scan_states()[0].import_seconds == seconds


def test_import_time_is_unknown_if_a_later_process_holds_the_lock(make_live_box, clock, scan_states):
    make_live_box(start_ns=clock() - 3_600_000_000_000)
    assert scan_states()[0].import_seconds is None


def test_rank_that_becomes_another_program_has_ended_with_the_status_executed(make_live_box, scan_states):
    box = make_live_box()
    assert scan_states()[0].alive
    box.holder.become_another_program()
    assert eventually(lambda: not scan_states()[0].alive)
    assert scan_states()[0].exit_status == EXECUTED
    box.holder.end()
    assert scan_states()[0].exit_status == EXECUTED


def test_rank_that_a_signal_ends_is_no_other_program(make_live_box, scan_states):
    box = make_live_box()
    assert scan_states()[0].alive
    box.holder.process.send_signal(signal.SIGKILL)
    assert eventually(lambda: not scan_states()[0].alive)  # scans also while the process ends
    box.holder.end()
    assert scan_states()[0].exit_status != EXECUTED
