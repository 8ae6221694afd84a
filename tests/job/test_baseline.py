"""What is a step like when the job is well? Learned from the job, lowered by it, never raised by it."""

import random

import pytest

from tests.build import JOB, agent_report, job_steps, rank_state, snapshot, step_record
from zmon.hub.job_state import JobState
from zmon.job.baseline import LEARNED_WINDOWS, WINDOW_SECONDS, WINDOW_STEPS, BaselineLearner, alike, step_window
from zmon.job.time_account import Account

STRETCH = 200  # steps of 25 ms


def steps(seconds=0.025, stretches=LEARNED_WINDOWS, **others):
    """So many stretches of steps of four ranks that compute for half of the time and exchange for the other."""
    half = {"phases": {"forward": seconds / 2}, "ops": {"all_to_all": seconds / 2}}
    return job_steps(round(stretches * STRETCH * 0.025 / seconds), **half, **others)


def learned(*parts):
    learning = BaselineLearner()
    for part in parts:
        learning.add(part)
    return learning


def test_stretch_has_the_parts_of_a_step_as_medians():
    slow = {"phases": {"data": 0.004, "forward": 0.030}, "ops": {"all_to_all": 0.002}}
    quick = {"phases": {"data": 0.004, "forward": 0.010}, "ops": {"all_to_all": 0.022}}
    found = step_window(job_steps(9, quick, quick, quick, slow, stands_for=4))
    assert found.num_steps == 36
    assert found.seconds == pytest.approx(0.036)
    assert found.self_seconds == pytest.approx(0.014)  # of the median rank
    assert found.data_seconds == pytest.approx(0.004)
    assert found.exposed_seconds == pytest.approx(0.002)  # as the last arriver saw it
    assert found.samples == 4 * 32


def test_stretch_of_a_job_that_does_not_tell_its_samples_has_none():
    assert step_window(job_steps(10, {}, {"samples": None})).samples is None


def test_stretches_last_some_seconds_and_have_some_steps():
    found = learned(steps(0.025, 3)).stretches
    assert [s.num_steps * s.seconds for s in found] == pytest.approx([WINDOW_SECONDS] * 3, rel=0.05)
    assert [s.num_steps for s in learned(job_steps(35, phases={"forward": 2.0})).stretches] == [WINDOW_STEPS] * 3


def test_steps_that_were_not_asked_for_count():
    assert len(learned(job_steps(100, stands_for=8, phases={"forward": 0.02}, ops={})).stretches) == 3


def test_nothing_is_expected_of_a_job_that_has_just_begun():
    assert learned(steps(stretches=LEARNED_WINDOWS - 1)).baseline is None
    assert learned(steps(stretches=LEARNED_WINDOWS)).baseline.seconds == pytest.approx(0.025)


def test_first_step_of_fifty_times_the_rest_changes_nothing():
    assert learned(job_steps(1, phases={"forward": 1.25}), steps()).baseline.seconds == pytest.approx(0.025)


def test_quick_first_steps_are_not_what_is_expected():
    """Queues that were filled before the first step empty."""
    assert learned(steps(0.010, 1), steps(0.025)).baseline.seconds == pytest.approx(0.025)


def test_job_that_gets_faster_lowers_it():
    assert learned(steps(0.040), steps(0.025)).baseline.seconds == pytest.approx(0.025)
    assert learned(steps(0.040), steps(0.025, 2), steps(0.040)).baseline.seconds == pytest.approx(0.040)


def test_drift_upward_never_raises_it():
    drift = [steps(0.025 * (1 + n / 100), 1) for n in range(100)]
    assert learned(steps(), *drift).baseline.seconds == pytest.approx(0.025)


def test_chance_does_not_lower_it_much():
    """Half an hour of steps with a heavy tail: log-normal, one in ten is twice the median."""
    chance, learning = random.Random(1), BaselineLearner()
    for _ in range(10_000):
        learning.add(job_steps(1, {}, stands_for=8, phases={"forward": 0.025 * chance.lognormvariate(0, 0.54)}, ops={}))
    assert learning.baseline.seconds > 0.025 * 0.9


@pytest.mark.parametrize("samples", [16, 64])
def test_another_number_of_samples_is_another_kind_of_step(samples):
    learning = learned(steps(), steps(0.050, 2, samples=samples))
    assert learning.baseline is None
    learning.add(steps(0.050, samples=samples))
    assert learning.baseline.seconds == pytest.approx(0.050)
    assert learning.baseline.samples == 4 * samples


def test_short_last_batch_of_an_epoch_is_no_change():
    learning = learned(steps(), *[steps(0.025, 0.1, samples=5), steps(0.025, 0.9)] * 8)
    assert learning.baseline.samples == 4 * 32


def test_batches_of_varying_size_are_one_kind():
    one, other = (step_window(job_steps(10, samples=samples)) for samples in (100, 108))
    assert alike(one, other)
    assert not alike(one, step_window(job_steps(10, samples=120)))
    assert not alike(one, step_window(job_steps(10, samples=None)))


def test_detectors_are_told():
    ranks, records = [rank_state(rank) for rank in range(4)], tuple(step_record(n) for n in range(1, 1201))
    report = agent_report(*ranks, records={JOB: {r.run_uid: records for r in ranks}})
    seen = JobState({r.run_uid for r in ranks}, 4, Account(JOB)).add(snapshot(*ranks), [report])
    assert seen.baseline.seconds == pytest.approx(0.020)
    assert len(seen.stretches) == 4
    assert seen.steps[-1].step == 1200
