"""Tests of leases: defaults by activity, and leases that follow from the job's own steps and earlier durations."""

import pytest

from zmon.job.lease import Leases

LEASES = Leases()


@pytest.mark.parametrize(
    ("activity", "seconds"),
    [
        ("init", 1800.0),
        ("eval", 1800.0),
        ("checkpoint", 900.0),
        ("compile", 900.0),
        ("loader_start", 300.0),
        ("done", None),
    ],
)
def test_activity_has_its_default_lease(activity, seconds):
    assert LEASES.seconds(activity, [0.02] * 100) == seconds


@pytest.mark.parametrize(("step", "seconds"), [(0.002, 1.5), (0.020, 1.5), (0.1, 1.5), (0.25, 3.75), (2.0, 30.0)])
def test_lease_of_training_follows_from_the_step_times(step, seconds):
    assert LEASES.seconds("train", [step] * 100) == pytest.approx(seconds)


def test_first_steps_have_the_lease_of_initialization():
    """The first step compiles, allocates and connects. It may take fifty times as long as the others."""
    assert LEASES.seconds("train", []) == 1800.0
    assert LEASES.seconds("train", [0.02] * 4) == 1800.0
    assert LEASES.seconds("train", [0.02] * 5) == 1.5


def test_lease_of_training_follows_from_slow_steps_not_the_median():
    """A job that pauses every fifty steps, to log or to collect garbage, has a longer lease."""
    assert LEASES.seconds("train", [0.02] * 98 + [1.0] * 2) == pytest.approx(15.0)


@pytest.mark.parametrize("number", [20, 60, 99, 100])
def test_one_pause_does_not_lengthen_the_lease_of_training(number):
    assert LEASES.seconds("train", [0.3] * (number - 1) + [13.0]) == pytest.approx(4.5, rel=0.5)


@pytest.mark.parametrize("number", [5, 19, 40])
def test_long_first_steps_and_a_second_pause_lengthen_the_lease_of_training(number):
    """Kernels are chosen and memory is allocated in the first steps; two pauses within 100 steps may be a habit."""
    pauses = [13.0] * (2 if number == 40 else 1)
    assert LEASES.seconds("train", [0.3] * (number - len(pauses)) + pauses) > 100.0


@pytest.mark.parametrize("activity", ["eval", "checkpoint", "compile", "loader_start"])
def test_lease_of_an_activity_follows_from_earlier_durations(activity):
    assert LEASES.seconds(activity, [], [30.0, 40.0, 20.0]) == 200.0


@pytest.mark.parametrize("activity", ["eval", "checkpoint", "compile"])
def test_two_earlier_durations_do_not_shorten_the_lease(activity):
    assert LEASES.seconds(activity, [], [30.0, 40.0]) >= 900.0


def test_learned_lease_has_a_minimum():
    assert LEASES.seconds("eval", [], [0.2] * 8) == 60.0


def test_learned_lease_is_at_most_the_default_lease():
    assert LEASES.seconds("checkpoint", [], [600.0] * 3) == 900.0
    assert LEASES.seconds("loader_start", [], [100.0] * 3) == 300.0


@pytest.mark.parametrize("activity", ["init", "train"])  # the first steps have the lease of initialization
def test_lease_of_initialization_follows_the_starts_of_earlier_launches(activity):
    starts = [40.0, 30.0, 50.0]
    assert LEASES.seconds(activity, [], starts) == 250.0
    assert LEASES.seconds(activity, [], starts[:2]) == 1800.0
    assert LEASES.seconds(activity, [], [600.0] * 3) == 1800.0


def test_learned_lease_of_initialization_is_at_least_two_minutes():
    assert LEASES.seconds("init", [], [3.0] * 8) == 120.0


def test_lease_thresholds_can_be_set():
    assert Leases(train_floor_seconds=5.0).seconds("train", [0.02] * 10) == 5.0
    assert Leases(eval_seconds=60.0).seconds("eval", []) == 60.0
    assert Leases(compile_seconds=60.0).seconds("compile", []) == 60.0


def test_unknown_activity_has_the_lease_of_initialization():
    """A long activity would be a stall if it had the lease of a step."""
    assert Leases().seconds("relocate", [0.02] * 100) == Leases().init_seconds
