"""Tests of the detector `input_bound`.

A job is reported if all its ranks wait for data for a large part of their time.
"""

from dataclasses import replace

import pytest

from tests.build import dead, job_steps, rank_state, snapshot
from zmon.detectors.slow.input_bound import InputBound
from zmon.job.baseline import BaselineLearner

RANKS = [rank_state(rank) for rank in range(4)]


def waiting_for_data(data, step=0.100):
    """Return a rank that waits for data for this time in each of its steps."""
    return {"phases": {"data": data, "forward": (step - data) / 2}, "ops": {"all_to_all": (step - data) / 2}}


def job(*parts):
    learning = BaselineLearner()
    for steps in parts:
        learning.add(steps)
    return replace(snapshot(*RANKS), steps=tuple(parts[-1][-64:]), step_windows=tuple(learning.step_windows))


def detect(*parts):
    return next(iter(InputBound().detect(job(*parts))), None)


def test_job_whose_ranks_all_wait_for_data_is_reported():
    finding = detect(job_steps(700, **waiting_for_data(0.040)))
    assert (finding.detector, finding.cause, finding.severity) == ("input_bound", "input_bound", "info")
    assert (finding.ranks, finding.hosts) == ((), ())
    assert "wait for data for 40% of their time (threshold 30%): 40.0 ms of a step of 100.0 ms" in finding.summary
    assert "num_workers" in finding.detail


def test_input_bound_reports_nothing_when_loaders_keep_up():
    assert detect(job_steps(700, **waiting_for_data(0.010))) is None


def test_input_bound_reports_nothing_when_a_single_loader_is_slow():
    """A single slow loader is a case for the detector `straggler`."""
    slow, quick = waiting_for_data(0.060), {"phases": {"data": 0.001, "forward": 0.02}, "ops": {"all_to_all": 0.079}}
    assert detect(job_steps(700, quick, slow, quick, quick)) is None


@pytest.mark.parametrize("steps", [5, 100, 500])
def test_input_bound_reports_nothing_while_caches_and_queues_fill(steps):
    assert detect(job_steps(steps, **waiting_for_data(0.040))) is None


def test_input_bound_reports_nothing_after_the_loaders_have_recovered():
    assert (
        detect(job_steps(700, **waiting_for_data(0.040)), job_steps(700, first=701, **waiting_for_data(0.010))) is None
    )


def test_input_bound_ignores_an_ended_job():
    ended = replace(job(job_steps(700, **waiting_for_data(0.040))), ranks=tuple(dead(rank) for rank in range(4)))
    assert InputBound().detect(ended) == ()


def test_finding_stays_open_until_there_are_enough_steps():
    finding = detect(job_steps(700, **waiting_for_data(0.040)))
    assert not InputBound().can_resolve(job(job_steps(100, **waiting_for_data(0.040))), finding)
    assert InputBound().can_resolve(job(job_steps(700, **waiting_for_data(0.010))), finding)


def test_input_bound_is_inert_without_a_data_phase():
    assert InputBound().inert_reason(job(job_steps(20, **waiting_for_data(0.010)))) is None
    assert "no data phase" in InputBound().inert_reason(job(job_steps(20)))
