"""Tests of findings about slowness beyond their rows: since when, how sure, which id, and why a detector is inert."""

from dataclasses import replace

import pytest

from tests.build import job_steps, plan
from tests.detectors.slow import slow_jobs, slower_jobs, uneven_jobs
from tests.detectors.slow.slow_jobs import healthy_steps, hot, later_steps, rank, slow_rank, steps, with_slow_rank
from tests.detectors.slow.slower_jobs import HEALTHY, loading, slower, steps_for, with_efficiency
from tests.detectors.slow.uneven_jobs import SKEWED_STEPS, job_of, slow_computing, slow_loader
from zmon.detectors.slow import EfficiencyLow, Imbalance, InputBound, Slowdown, Straggler
from zmon.detectors.slow.self_times import SelfTimes
from zmon.schema.evidence import PlannedShare


@pytest.mark.parametrize(
    ("detector", "job", "seconds"),
    [(Slowdown(), slower(exchange=0.150), 60), (EfficiencyLow(), with_efficiency((11, 0.8)), 600)],
)
def test_onset_is_the_start_of_the_slow_time(detector, job, seconds):
    (finding,) = detector.detect(job)
    assert finding.detected - finding.onset == pytest.approx(seconds, rel=0.1)


def test_confidence_in_a_straggler_rises_with_the_duration():
    slow = with_slow_rank(1, forward=0.100)
    (just,) = Straggler().detect(slow_rank(1, number=16, forward=0.100))
    (long,) = Straggler().detect(slow_jobs.job(later_steps(64, *slow)))
    assert just.confidence < long.confidence <= 0.95
    assert long.onset < just.onset


def test_lost_gpu_hours_of_a_hot_gpu_are_unknown():
    (finding,) = Straggler().detect(slow_jobs.job(healthy_steps(), hardware=hot(1, "sw_thermal")))
    assert finding.lost_gpu_hours is None


def test_thresholds_of_the_site_are_used():
    (finding,) = EfficiencyLow(below_ratio=0.97, lasting_seconds=120.0).detect(with_efficiency((3, 0.91)))
    assert "threshold 97%" in finding.summary


def test_plan_is_in_the_evidence_and_not_in_the_id():
    (planned,) = Imbalance().detect(job_of(SKEWED_STEPS, plan()))
    (bare,) = Imbalance().detect(job_of(SKEWED_STEPS))
    assert planned.evidence.plan == PlannedShare(("t2",), num_tables=1, planned=60_000, measured=180_000, unit="bytes")
    assert planned.id == bare.id


def test_each_cause_of_imbalance_is_a_separate_finding():
    """The label of the first cause is published and stays; a second fault needs another one."""
    (first,) = Imbalance().detect(uneven_jobs.job((90, slow_loader)))
    (second,) = Imbalance().detect(uneven_jobs.job((90, slow_computing)))
    assert Imbalance.separate
    assert first.id != second.id


EQUAL = slow_jobs.job(healthy_steps())
NO_COLLECTIVE = "its steps report no collective"
NOT_RECORDED = "nothing was recorded for its name at its size, or it has taken too few steps"
NO_DATA_PHASE = "its ranks mark no data phase: they use no DataLoader and no zmon.phase"


@pytest.mark.parametrize(
    ("detector", "job", "reason"),
    [
        (Straggler(), EQUAL, None),
        (Straggler(), replace(EQUAL, world_size=1), "it has one rank"),
        (Straggler(), replace(EQUAL, missing=(3,)), "no agent reports some of its ranks"),
        (Straggler(), slow_jobs.job(), "no step of all its ranks is known yet"),
        (Straggler(), slow_jobs.apart(), "no collectives: ranks are not compared"),
        (Imbalance(), slow_jobs.apart(), "no collectives: ranks are not compared"),
        (Imbalance(), job_of(SKEWED_STEPS), None),
        (Imbalance(), job_of(uneven_jobs.uneven(1, 1, op="all_reduce")), None),
        (Imbalance(), job_of(job_steps(4, ops={})), NO_COLLECTIVE),
        (Imbalance(), replace(EQUAL, world_size=1), "it has one rank"),
        (Slowdown(), slower_jobs.job(HEALTHY), None),
        (Slowdown(), slower_jobs.job(steps_for(10)), "it has taken too few steps to have a baseline"),
        (EfficiencyLow(), with_efficiency((1, 0.8)), None),
        (EfficiencyLow(), with_efficiency(), NOT_RECORDED),
        (InputBound(), slower_jobs.job(loading(0.010, 20)), None),
        (InputBound(), slower_jobs.job(job_steps(20)), NO_DATA_PHASE),
    ],
)
def test_detector_is_inert_without_its_input(detector, job, reason):
    assert detector.inert_reason(job) == reason


@pytest.mark.parametrize(
    ("other_data", "ranks"),
    [
        pytest.param(0.510, [], id="the other is slow in the other steps"),
        pytest.param(0.010, [1], id="the other is never slow"),
    ],
)
def test_one_of_two_ranks_is_not_late_if_the_other_is_slow_in_the_other_steps(other_data, ranks):
    """A slow loader that moves between the two is with one of them in more than half of the steps."""
    rank_1_is_slow = (rank(data=0.010), rank(data=0.510))
    rank_1_is_quick = (rank(data=other_data), rank(data=0.010))
    turns = [*[rank_1_is_slow] * 3, *[rank_1_is_quick] * 3, rank_1_is_slow] * 3
    rows = [step for ranks_of_step in turns for step in steps(1, *ranks_of_step)]
    assert [lag.rank for lag in SelfTimes.from_steps(rows).lags(len(rows), 0.1)] == ranks
