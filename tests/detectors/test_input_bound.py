"""Do all ranks wait for data, all the time?"""

from dataclasses import replace

import pytest

from tests.build import dead, job_steps, rank_state, snapshot
from zmon.detectors.input_bound import InputBound
from zmon.job.baseline import BaselineLearner

RANKS = [rank_state(rank) for rank in range(4)]


def waiting(data, step=0.100):
    """A rank that waits for data for so long in each of its steps."""
    return {"phases": {"data": data, "forward": (step - data) / 2}, "ops": {"all_to_all": (step - data) / 2}}


def seen(*parts):
    learning = BaselineLearner()
    for steps in parts:
        learning.add(steps)
    return replace(snapshot(*RANKS), steps=tuple(parts[-1][-64:]), step_windows=tuple(learning.step_windows))


def detect(*parts):
    return next(iter(InputBound().detect(seen(*parts))), None)


def test_job_whose_ranks_all_wait_for_data_is_told_so():
    found = detect(job_steps(700, **waiting(0.040)))
    assert (found.detector, found.cause, found.severity) == ("input_bound", "input_bound", "info")
    assert (found.ranks, found.hosts) == ((), ())
    assert "wait for data for 40% of their time (threshold 30%): 40.0 ms of a step of 100.0 ms" in found.summary
    assert "num_workers" in found.detail


def test_input_bound_is_quiet_when_loaders_keep_up():
    assert detect(job_steps(700, **waiting(0.010))) is None


def test_input_bound_is_quiet_when_one_loader_is_slow():
    """That is a straggler."""
    slow, quick = waiting(0.060), {"phases": {"data": 0.001, "forward": 0.02}, "ops": {"all_to_all": 0.079}}
    assert detect(job_steps(700, quick, slow, quick, quick)) is None


@pytest.mark.parametrize("steps", [5, 100, 500])
def test_input_bound_is_quiet_while_caches_and_queues_fill(steps):
    assert detect(job_steps(steps, **waiting(0.040))) is None


def test_input_bound_is_quiet_when_it_only_was_so():
    assert detect(job_steps(700, **waiting(0.040)), job_steps(700, first=701, **waiting(0.010))) is None


def test_input_bound_is_quiet_about_a_job_that_is_over():
    ended = replace(seen(job_steps(700, **waiting(0.040))), ranks=tuple(dead(rank) for rank in range(4)))
    assert InputBound().detect(ended) == ()


def test_fault_is_not_over_before_it_is_seen_for_long_enough():
    found = detect(job_steps(700, **waiting(0.040)))
    assert not InputBound().sees(seen(job_steps(100, **waiting(0.040))), found)
    assert InputBound().sees(seen(job_steps(700, **waiting(0.010))), found)


def test_input_bound_says_of_whom_it_can_say_nothing():
    assert InputBound().inert(seen(job_steps(20, **waiting(0.010)))) is None
    assert "no data phase" in InputBound().inert(seen(job_steps(20)))
