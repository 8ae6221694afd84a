"""Tests of the lease of initialization that an agent learns from earlier launches of a job."""

from __future__ import annotations

import pytest

from tests.boxes import Box
from zmon.agent.sources.boxes import Boxes
from zmon.job.lease import Leases
from zmon.probe.rank import TRAIN

CONFIGURED, SHORTEST = Leases.init_seconds, Leases.init_floor_seconds
MULTIPLE = Leases.stay_multiple  # of the longest start so far
SCRIPT, OTHER_SCRIPT = "train-aaaaaa-111111", "train-aaaaaa-222222"  # name, hash of the path, hash of the arguments


class Launches:
    """Launches of a job, one after the other."""

    def __init__(self, boxes: Boxes, make_live_box, clock) -> None:
        self._boxes, self._make, self._clock, self._number = boxes, make_live_box, clock, 0

    def complete(self, seconds: float = 3.0, first_step: float = 0.02, rank: int = 0, **identity) -> Box:
        """Run a launch of one rank, which is in initialization for some seconds, then trains for 10 steps, and ends."""
        box = self.initializing(rank, **identity)
        self._clock.sleep(seconds)
        box.timeline.turn_to(TRAIN)
        box.steps(1, seconds=first_step)
        box.steps(9)
        self._boxes.scan()
        box.holder.end()
        self._boxes.scan()
        return box

    def initializing(self, rank: int = 0, **identity) -> Box:
        """Start a launch that stays in initialization."""
        self._number += 1
        identity = {"attempt": self._number, "launcher_pid": 900 + self._number, **identity}
        return self._make(rank, run_uid=f"{self._number:032x}", **identity)

    def lease(self, box: Box) -> float | None:
        """Return the lease of the rank of this box now."""
        self._boxes.scan()
        return next(state.lease_seconds for _, state in self._boxes.ranks() if state.run_uid == box.who.run_uid)


@pytest.fixture
def launches(boxes, make_live_box, clock) -> Launches:
    """Return the launches of a job, of which none has begun."""
    return Launches(boxes, make_live_box, clock)


def test_third_launch_still_has_the_configured_lease_and_the_fourth_a_learned_one(launches) -> None:
    for _ in range(2):
        launches.complete(seconds=3.0)
    assert launches.lease(launches.initializing()) == CONFIGURED
    launches.complete(seconds=50.0)
    assert launches.lease(launches.initializing()) == MULTIPLE * 50.0


@pytest.mark.parametrize(
    ("first_step", "lease"), [(0.02, SHORTEST), (100.0, MULTIPLE * 100.0)], ids=["quick", "compiles"]
)
def test_learned_lease_has_the_first_step_and_is_at_least_two_minutes(launches, first_step, lease) -> None:
    for _ in range(3):
        launches.complete(seconds=3.0, first_step=first_step)
    box = launches.initializing()
    assert launches.lease(box) == pytest.approx(lease)
    box.timeline.turn_to(TRAIN)
    assert launches.lease(box) == pytest.approx(lease)  # the first step


def test_launches_of_one_name_learn_from_each_other_and_other_jobs_do_not(launches) -> None:
    for number in range(3):
        launches.complete(job_id=f"night-{number}", labels={"name": "ranker"})
    assert launches.lease(launches.initializing(job_id="night-3", labels={"name": "ranker"})) == SHORTEST
    assert launches.lease(launches.initializing(job_id="night-4")) == CONFIGURED


def test_runs_of_one_command_learn_from_each_other(launches) -> None:
    for number in range(3):
        launches.complete(job_id=f"train-{number}", program=SCRIPT)
    assert launches.lease(launches.initializing(job_id="train-3", program=SCRIPT)) == SHORTEST
    assert launches.lease(launches.initializing(job_id="train-4", program=OTHER_SCRIPT)) == CONFIGURED
    assert launches.lease(launches.initializing(job_id="train-5", program=SCRIPT, world_size=16)) == CONFIGURED


def test_ranks_of_one_launch_count_once(launches) -> None:
    for rank in range(8):
        launches.complete(rank=rank, attempt=1, launcher_pid=901)
    assert launches.lease(launches.initializing(attempt=2)) == CONFIGURED


def test_start_that_was_overwritten_before_the_agent_began_is_not_learned(boxes, make_live_box, launches) -> None:
    for number in range(3):
        make_live_box(attempt=10 + number, run_uid=f"{100 + number:032x}").steps(5000)
    boxes.scan()
    assert launches.lease(launches.initializing()) == CONFIGURED
