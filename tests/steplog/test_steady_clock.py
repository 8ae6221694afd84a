"""Tests of the steady clock. For an hour after a start or a jump of the clock, nothing is deleted for its age."""

import os
import time

import pytest

from tests.build import JOB, NOW
from tests.hub.test_ended_jobs import record_end
from tests.steplog.build import segments
from zmon.hub.accounts import Accounts
from zmon.hub.ended_jobs import EndedJobs
from zmon.hub.incidents.capsule_store import CapsuleStore
from zmon.hub.json_folder import SAVE_SECONDS
from zmon.hub.pauses import PauseStore
from zmon.schema.pause import Place
from zmon.steplog import StepLog
from zmon.steplog.files import HOLD_SECONDS, SteadyClock
from zmon.steplog.writer import PRUNE_SECONDS

YEAR = 365 * 86400.0


class Clocks:
    """A wall clock and a monotonic clock that run together, until the wall clock jumps."""

    def __init__(self):
        self.monotonic_seconds = 1000.0
        self.ahead = time.time() - self.monotonic_seconds  # seconds from the monotonic clock to the wall clock
        self.steady = SteadyClock(self.wall, self.monotonic)

    def wall(self):
        return self.monotonic_seconds + self.ahead

    def monotonic(self):
        return self.monotonic_seconds

    def sleep(self, seconds):
        self.monotonic_seconds += seconds


@pytest.fixture
def clocks():
    """Return clocks that ran for an hour, and whose wall clock then jumped forward a year."""
    clocks = Clocks()
    clocks.sleep(HOLD_SECONDS)
    assert clocks.steady.is_steady()
    clocks.ahead += YEAR
    return clocks


@pytest.mark.parametrize("jumps", [[], [YEAR], [-YEAR], [120.0]], ids=["start", "forward", "backward", "two minutes"])
def test_clock_is_steady_an_hour_after_the_start_and_after_a_jump(jumps):
    clocks = Clocks()
    for jump in jumps:
        clocks.sleep(HOLD_SECONDS)
        clocks.ahead += jump
    assert not clocks.steady.is_steady()
    clocks.sleep(HOLD_SECONDS - 1)
    assert not clocks.steady.is_steady()
    clocks.sleep(1)
    assert clocks.steady.is_steady()


def test_clock_that_is_put_right_again_is_unsteady_for_another_hour(clocks):
    assert not clocks.steady.is_steady()
    clocks.sleep(HOLD_SECONDS - 1)
    clocks.ahead -= YEAR
    assert not clocks.steady.is_steady()
    clocks.sleep(2)
    assert not clocks.steady.is_steady()


def test_clock_that_ntp_slews_stays_steady():
    clocks = Clocks()
    clocks.sleep(HOLD_SECONDS)
    for _ in range(100):
        clocks.sleep(60.0)
        clocks.ahead += 0.03  # 500 millionths, the fastest that NTP slews
        assert clocks.steady.is_steady()


def check_deletion(clocks, prune, exists):
    """Check that `prune` deletes nothing for an hour after the jump, and deletes then."""
    for _ in range(3):
        prune()
        assert exists()
        clocks.sleep(HOLD_SECONDS / 3)
    prune()
    assert not exists()


def test_step_log_outlives_a_jump_of_the_clock(tmp_path, clocks):
    log = StepLog(tmp_path, "node-a", clock=clocks.wall, steady=clocks.steady)
    segment = tmp_path / "job/0-rank-0-0123.000000000001.steps"
    segment.parent.mkdir()
    segment.write_bytes(bytes(10))
    os.utime(segment, (clocks.wall() - YEAR, clocks.wall() - YEAR))
    assert PRUNE_SECONDS < HOLD_SECONDS / 3
    check_deletion(clocks, lambda: log.append({}), lambda: segments(tmp_path))


def test_incidents_outlive_a_jump_of_the_clock(tmp_path, clocks, monkeypatch):
    monkeypatch.setattr("zmon.hub.incidents.capsule_store.time.time", clocks.wall)
    store = CapsuleStore(tmp_path, clocks.steady)
    (store.root / "f1").mkdir(parents=True)
    (store.root / "f1/finding.json").write_text("{}")
    os.utime(store.root / "f1/finding.json", (clocks.wall() - YEAR, clocks.wall() - YEAR))
    check_deletion(clocks, lambda: store.prune(()), (store.root / "f1").exists)


def test_ended_jobs_outlive_a_jump_of_the_clock(tmp_path, clocks):
    store = EndedJobs(tmp_path, clocks.steady)
    record_end(store, JOB)
    check_deletion(clocks, lambda: store.forget_old(NOW + YEAR, ()), (tmp_path / f"{JOB}.json").exists)


def test_pauses_outlive_a_jump_of_the_clock(tmp_path, clocks):
    store = PauseStore(tmp_path, clocks.steady)
    store.record("ranker", [Place("data", "read() at loader.py:40")], 6.2, NOW)
    assert store.pauses("ranker", NOW + YEAR)
    check_deletion(clocks, lambda: store.pauses("other", NOW + YEAR), (tmp_path / "ranker.json").exists)
    assert not store.pauses("ranker", NOW + YEAR)


def test_time_accounts_outlive_a_jump_of_the_clock(tmp_path, clocks, monkeypatch):
    monkeypatch.setattr("zmon.hub.accounts.time.monotonic", clocks.monotonic)
    monkeypatch.setattr("zmon.hub.accounts.time.time", clocks.wall)
    store = Accounts(tmp_path, clocks.steady)
    clocks.sleep(SAVE_SECONDS)
    (tmp_path / f"{JOB}.json").write_text("{}")
    os.utime(tmp_path / f"{JOB}.json", (clocks.wall() - YEAR, clocks.wall() - YEAR))
    check_deletion(clocks, lambda: store.maintain(()), (tmp_path / f"{JOB}.json").exists)
