"""Tests of the time of a rank. Steps and the activities between them sum to the age of the rank."""

import pytest

from tests.probe.reading import read_steps
from zmon.probe.rank import CHECKPOINT, DONE, EVAL, TRAIN


def test_times_of_activities_and_steps_sum_to_the_age_of_the_rank(box):
    begin = box.clock.ns
    box.clock.sleep(3)  # init
    box.steps(2, seconds=0.5)
    box.clock.sleep(0.25)  # the rank loads a batch and does not train on it
    box.timeline.turn_to(EVAL)
    box.clock.sleep(7)
    box.timeline.turn_to(CHECKPOINT)
    box.clock.sleep(2)
    box.timeline.turn_to(TRAIN)
    box.steps(1, seconds=0.5)
    box.timeline.turn_to(EVAL)
    box.clock.sleep(1)
    box.timeline.turn_to(DONE)
    totals = read_steps(box)[1]
    assert totals.between_seconds == pytest.approx({"init": 3, "train": 0.25, "eval": 8, "checkpoint": 2}, abs=1e-6)
    assert totals.step_seconds == pytest.approx(1.5, abs=1e-6)
    age = (box.clock.ns - begin) * 1e-9
    assert totals.step_seconds + sum(totals.between_seconds.values()) == pytest.approx(age, abs=1e-6)


def test_current_activity_is_not_yet_included(box):
    box.steps(1)
    box.timeline.turn_to(EVAL)
    box.clock.sleep(7)
    assert "eval" not in read_steps(box)[1].between_seconds
