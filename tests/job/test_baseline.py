"""Tests of the learned baseline. Faster steps lower it, and slower steps never raise it."""

import random

import pytest

from tests.build import JOB, agent_report, job_steps, rank_state, snapshot, step_record
from tests.steps import changed
from zmon.hub.job_state import JobState
from zmon.job.baseline import (
    LEARNED_WINDOWS,
    WINDOW_SECONDS,
    WINDOW_STEPS,
    BaselineLearner,
    for_work_of,
    is_comparable,
    step_window,
)
from zmon.job.time_account import Account
from zmon.schema.aligned_step import StepWindow

NUM_STEPS = 200  # steps of 25 ms in one window


def steps(seconds=0.025, windows=LEARNED_WINDOWS, **of_all_ranks):
    """Return some windows of steps of four ranks, which compute and exchange for half of the time each."""
    half = {"phases": {"forward": seconds / 2}, "ops": {"all_to_all": seconds / 2}}
    return job_steps(round(windows * NUM_STEPS * 0.025 / seconds), **half, **of_all_ranks)


def learner_after(*parts):
    """Return the learner of a baseline after these parts of a job's steps."""
    learner = BaselineLearner()
    for part in parts:
        learner.add(part)
    return learner


def test_step_window_has_medians_of_the_parts_of_a_step():
    slow = {"phases": {"data": 0.004, "forward": 0.030}, "ops": {"all_to_all": 0.002}}
    quick = {"phases": {"data": 0.004, "forward": 0.010}, "ops": {"all_to_all": 0.022}}
    window = step_window(job_steps(9, quick, quick, quick, slow, stands_for=4))
    assert window.num_steps == 36
    assert window.seconds == pytest.approx(0.036)
    assert window.self_seconds == pytest.approx(0.014)  # the median rank
    assert window.data_seconds == pytest.approx(0.004)
    assert window.exposed_seconds == pytest.approx(0.002)  # the critical rank
    assert window.samples == 4 * 32
    assert step_window(job_steps(10, {}, {"samples": None})).samples is None


def test_window_of_short_steps_has_the_least_seconds():
    windows = learner_after(steps(0.025, 3)).step_windows
    assert [s.num_steps * s.seconds for s in windows] == pytest.approx([WINDOW_SECONDS] * 3, rel=0.05)


def test_window_of_long_steps_has_the_least_number_of_steps():
    windows = learner_after(job_steps(35, phases={"forward": 2.0})).step_windows
    assert [s.num_steps for s in windows] == [WINDOW_STEPS] * 3


def test_window_of_sampled_steps_counts_the_steps_between_them():
    sampled = job_steps(100, stands_for=8, phases={"forward": 0.02}, ops={})
    assert len(learner_after(sampled).step_windows) == 3


BASELINES = {
    "too few windows": ([steps(windows=LEARNED_WINDOWS - 1)], None),
    "enough windows": ([steps()], 0.025),
    "slow first step": ([job_steps(1, phases={"forward": 1.25}), steps()], 0.025),
    # Queues that filled before the first step run empty.
    "quick first steps": ([steps(0.010, 1), steps(0.025)], 0.025),
    "faster job": ([steps(0.040), steps(0.025)], 0.025),
    "faster for a moment": ([steps(0.040), steps(0.025, 2), steps(0.040)], 0.040),
    "slower and slower job": ([steps(), *(steps(0.025 * (1 + n / 100), 1) for n in range(100))], 0.025),
}


@pytest.mark.parametrize(("parts", "seconds"), BASELINES.values(), ids=BASELINES)
def test_baseline_is_the_slowest_of_the_fastest_consecutive_windows(parts, seconds):
    baseline = learner_after(*parts).baseline
    assert (baseline and baseline.seconds) == (seconds and pytest.approx(seconds))


def test_noise_lowers_the_baseline_only_slightly():
    """Half an hour of steps with a heavy tail: log-normal, one in ten is twice the median."""
    chance, learner = random.Random(1), BaselineLearner()
    for _ in range(10_000):
        learner.add(job_steps(1, {}, stands_for=8, phases={"forward": 0.025 * chance.lognormvariate(0, 0.54)}, ops={}))
    assert learner.baseline.seconds > 0.025 * 0.9


@pytest.mark.parametrize("samples", [16, 64])
def test_baseline_is_learned_again_after_a_change_of_samples(samples):
    learner = learner_after(steps(), steps(0.050, 2, samples=samples))
    assert learner.baseline is None
    learner.add(steps(0.050, samples=samples))
    assert learner.baseline.seconds == pytest.approx(0.050)
    assert learner.baseline.samples == 4 * samples


def test_short_last_batch_of_an_epoch_keeps_the_baseline():
    learner = learner_after(steps(), *[steps(0.025, 0.1, samples=5), steps(0.025, 0.9)] * 8)
    assert learner.baseline.samples == 4 * 32


def test_step_windows_are_comparable_if_their_samples_are_similar():
    first, second = (step_window(job_steps(10, samples=samples)) for samples in (100, 108))
    assert is_comparable(first, second)
    assert not is_comparable(first, step_window(job_steps(10, samples=120)))
    assert not is_comparable(first, step_window(job_steps(10, samples=None)))


def window(samples=32, tokens=None, flops=None):
    """Return a window of steps of 100 ms with these amounts of all ranks."""
    times = {"seconds": 0.1, "self_seconds": 0.06, "data_seconds": 0.01, "exposed_seconds": 0.04}
    return StepWindow(num_steps=50, **times, samples=samples, tokens=tokens, flops=flops)


GROWTH = {  # amounts of a window, those of the baseline, and how many times as much work the window has
    "nothing is known": ({}, {}, 1.0),
    "as many tokens": ({"tokens": 512}, {"tokens": 512}, 1.0),
    "longer sequences": ({"tokens": 1280}, {"tokens": 512}, 2.5),
    "attention over longer sequences": ({"tokens": 1024, "flops": 3e9}, {"tokens": 512, "flops": 1e9}, 3.0),
    "shorter sequences": ({"tokens": 256}, {"tokens": 512}, 1.0),
    "the tokens are declared later": ({"tokens": 512}, {}, 1.0),
    "the tokens are not declared any more": ({}, {"tokens": 512}, 1.0),
    "a step without tokens": ({"tokens": 512}, {"tokens": 0}, 1.0),
}


@pytest.mark.parametrize(("now", "then", "growth"), GROWTH.values(), ids=GROWTH)
def test_baseline_is_longer_for_more_work(now, then, growth):
    expected = for_work_of(window(**now), window(**then))
    assert (expected.seconds, expected.self_seconds, expected.data_seconds, expected.exposed_seconds) == pytest.approx(
        (growth * 0.1, growth * 0.06, growth * 0.01, growth * 0.04)
    )


def test_step_window_has_the_work_of_all_ranks():
    steps = [changed(step, tokens=(100, 100, 100, 212)) for step in job_steps(9)]
    assert (step_window(steps).tokens, step_window(steps).flops) == (512, None)
    assert step_window([changed(step, tokens=(100, None, 100, 212)) for step in steps]).tokens is None


def test_snapshot_has_step_windows_and_baseline():
    ranks, records = [rank_state(rank) for rank in range(4)], tuple(step_record(n) for n in range(1, 1201))
    report = agent_report(*ranks, records={JOB: {r.run_uid: records for r in ranks}})
    state = JobState({r.run_uid for r in ranks}, 4, Account(JOB)).add(snapshot(*ranks), [report])
    assert state.baseline.seconds == pytest.approx(0.020)
    assert len(state.step_windows) == 4
    assert state.steps[-1].step == 1200
