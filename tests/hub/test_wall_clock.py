"""Tests of a clock that is set while the hub runs: no duration is longer or shorter by that."""

import time

import pytest

from tests.build import NOW, rank_state, snapshot
from tests.hub.fakes import FakeAgent, frozen, healthy, poll
from zmon.hub.job_state import JobState
from zmon.hub.wall_clock import WallClock
from zmon.job.time_account import Account
from zmon.schema.curve import EfficiencySample


class Clocks:
    """A unix clock that a test sets, and a monotonic one."""

    def __init__(self):
        self.unix, self.monotonic = NOW, 50.0

    def pass_time(self, seconds):
        """Let both clocks run for this time."""
        self.unix += seconds
        self.monotonic += seconds

    def read_by(self):
        """Return the clock of a hub that reads both."""
        return WallClock(lambda: self.unix, lambda: self.monotonic)


@pytest.mark.parametrize("seconds", [-600.0, 600.0, 8 * 3600.0])
def test_clock_that_was_set_is_noticed_once(seconds):
    clocks = Clocks()
    clock = clocks.read_by()
    clocks.pass_time(100.0)
    assert clock.read() == (NOW + 100.0, 0.0)
    clocks.unix += seconds
    assert clock.read() == (NOW + 100.0 + seconds, pytest.approx(seconds))
    assert clock.read() == (NOW + 100.0 + seconds, 0.0)


def test_slow_drift_is_no_jump_until_it_adds_up():
    clocks = Clocks()
    clock = clocks.read_by()
    moved = []
    for _ in range(100):
        clocks.pass_time(1.0)
        clocks.unix += 0.03
        moved.append(clock.read()[1])
    assert [seconds for seconds in moved if seconds] == [pytest.approx(1.02)] * 2


@pytest.mark.parametrize("seconds", [-600.0, 600.0])
async def test_clock_that_is_set_neither_delays_nor_hastens_the_end_of_a_finding(start_hub, monkeypatch, seconds):
    monkeypatch.setattr("zmon.hub.journal.RESOLVE_AFTER_SECONDS", 1.0)
    agent, ahead = FakeAgent(*frozen()), [0.0]
    hub_client = await start_hub(agent)
    hub_client.hub._clock = WallClock(lambda: time.time() + ahead[0])
    assert await poll(hub_client.findings)
    agent.ranks = healthy()

    def absent():
        return dict(hub_client.hub.journal._absent_since)

    ((name, since),) = (await poll(absent)).items()
    ahead[0] = seconds
    moved = await poll(absent, until=lambda now: now.get(name) != since)
    assert moved[name] == pytest.approx(since + seconds, abs=0.1)
    assert await poll(hub_client.no_findings)


def test_times_of_a_job_move_with_the_clock():
    account = Account("job")
    state = JobState({"uid-0"}, 1, account)
    running = snapshot(rank_state(0, world_size=1), time=NOW)
    state.add(running, [])
    state.efficiency.append(EfficiencySample(NOW, ratio=0.9, recorded=0.95, scaling="weak", name="ranker"))
    state.efficiency_due = state.peaks_due = state.activity.due = NOW + 30.0
    state.move_times(-600.0)
    assert (state.efficiency_due, state.peaks_due, state.activity.due) == (NOW - 570.0,) * 3
    assert [sample.time for sample in state.efficiency] == [NOW - 600.0]
    assert account.until == NOW - 600.0


def test_restart_during_which_the_clock_is_set_back_has_its_length():
    account = Account("job")
    state = JobState({"uid-0"}, 1, account)
    state.add(snapshot(rank_state(0, world_size=1, activity_seconds=60.0), time=NOW), [])
    state.move_times(-600.0)
    again = rank_state(0, world_size=1, run_uid="again", between_seconds={"init": 2.0}, activity_seconds=1.0)
    account.update(snapshot(again, time=NOW - 600.0 + 70.0), (), typical_seconds=0.02, stalled=False)
    assert "clock" not in account.doubt
    # The new launch is 4 s old: 2 s of init, and 2 s of the steps that `rank_state` has.
    assert account.causes["restart"] == pytest.approx(70.0 - 4.0)
