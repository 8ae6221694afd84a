"""Tests of the lease of initialization that an agent learns from earlier launches of a job."""

from __future__ import annotations

import pytest

from tests.boxes import Box
from zmon.agent.sources.boxes import Boxes
from zmon.probe.rank import TRAIN


class Launches:
    """Launches of a job, one after the other, each with a start of some seconds in initialization."""

    def __init__(self, boxes: Boxes, make_live_box, clock) -> None:
        self._boxes, self._make, self._clock, self._number = boxes, make_live_box, clock, 0

    def start(self, seconds: float = 3.0, first_step: float = 0.02, rank: int = 0, **identity) -> Box:
        """Start a launch of one rank, which trains until its lease of training is learned."""
        box = self.begin(rank, **identity)
        self._clock.sleep(seconds)
        box.timeline.turn_to(TRAIN)
        box.steps(1, seconds=first_step)
        box.steps(9)
        self._boxes.scan()
        box.process.end()
        self._boxes.scan()
        return box

    def begin(self, rank: int = 0, **identity) -> Box:
        """Begin a launch that is still in initialization."""
        self._number += 1
        identity = {"attempt": self._number, "launcher_pid": 900 + self._number, **identity}
        return self._make(rank, run_uid=f"{self._number:032x}", **identity)

    def lease(self, box: Box) -> float | None:
        self._boxes.scan()
        return next(state.lease_seconds for _, state in self._boxes.ranks() if state.run_uid == box.who.run_uid)


@pytest.fixture
def launches(boxes, make_live_box, clock) -> Launches:
    return Launches(boxes, make_live_box, clock)


def test_third_launch_still_has_the_configured_lease_and_the_fourth_a_learned_one(launches) -> None:
    for _ in range(2):
        launches.start(seconds=3.0)
    assert launches.lease(launches.begin()) == 1800.0
    launches.start(seconds=50.0)
    assert launches.lease(launches.begin()) == 250.0


@pytest.mark.parametrize(("first_step", "lease"), [(0.02, 120.0), (100.0, 500.0)], ids=["quick", "compiles"])
def test_learned_lease_has_the_first_step_and_is_at_least_two_minutes(launches, first_step, lease) -> None:
    for _ in range(3):
        launches.start(seconds=3.0, first_step=first_step)
    box = launches.begin()
    assert launches.lease(box) == pytest.approx(lease)
    box.timeline.turn_to(TRAIN)
    assert launches.lease(box) == pytest.approx(lease)  # the first step


def test_launches_of_one_name_learn_from_each_other_and_other_jobs_do_not(launches) -> None:
    for number in range(3):
        launches.start(job_id=f"night-{number}", labels={"name": "ranker"})
    assert launches.lease(launches.begin(job_id="night-3", labels={"name": "ranker"})) == 120.0
    assert launches.lease(launches.begin(job_id="night-4")) == 1800.0


def test_runs_of_one_command_learn_from_each_other(launches) -> None:
    for number in range(3):
        launches.start(job_id=f"train-{number}", program="train-aaaaaa-111111")
    assert launches.lease(launches.begin(job_id="train-3", program="train-aaaaaa-111111")) == 120.0
    assert launches.lease(launches.begin(job_id="train-4", program="train-aaaaaa-222222")) == 1800.0
    assert launches.lease(launches.begin(job_id="train-5", program="train-aaaaaa-111111", world_size=16)) == 1800.0


def test_ranks_of_one_launch_count_once(launches) -> None:
    for rank in range(8):
        launches.start(rank=rank, attempt=1, launcher_pid=901)
    assert launches.lease(launches.begin(attempt=2)) == 1800.0


def test_start_that_was_overwritten_before_the_agent_began_is_not_learned(boxes, make_live_box, launches) -> None:
    for number in range(3):
        make_live_box(attempt=10 + number, run_uid=f"{100 + number:032x}").steps(5000)
    boxes.scan()
    assert launches.lease(launches.begin()) == 1800.0
