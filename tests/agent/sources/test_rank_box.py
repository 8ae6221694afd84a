"""For how long has the process of a rank slept uninterruptibly? Looks that see it otherwise in between begin anew."""

from dataclasses import replace

import pytest

from zmon.agent.sources import rank_box


@pytest.fixture
def in_state(monkeypatch):
    """Let the kernel say that the rank's process is in this state."""
    real = rank_box.process_stat

    def say(letter):
        monkeypatch.setattr(rank_box, "process_stat", lambda *args: replace(real(*args), state=letter))

    return say


def test_uninterruptible_sleep_lasts_from_the_first_look_that_saw_it(live, clock, states, in_state):
    live()
    in_state("D")
    assert states()[0].blocked_seconds == pytest.approx(0.0)
    clock.sleep(1.5)
    state = states()[0]
    assert (state.process_state, state.blocked_seconds, state.stopped_seconds) == ("D", pytest.approx(1.5), None)


def test_rank_that_woke_up_in_between_has_slept_since_the_last_time_only(live, clock, states, in_state):
    live()
    for letter in "DSD":
        clock.sleep(1.0)
        in_state(letter)
        asleep = states()[0].blocked_seconds
    assert asleep == pytest.approx(0.0)
    in_state("S")
    assert states()[0].blocked_seconds is None


def test_dead_rank_sleeps_no_more(live, states, in_state):
    box = live()
    in_state("D")
    states()
    box.process.end()
    assert states()[0].blocked_seconds is None
