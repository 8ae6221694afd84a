"""Test that a job is reported if it is slower than recorded jobs for long enough and nothing else explains it."""

from dataclasses import replace

import pytest

from tests.build import NOW, dead, rank_state, snapshot
from zmon.detectors import ALL
from zmon.detectors.efficiency import EfficiencyLow
from zmon.schema.curve import EfficiencySample

EVERY = 30.0  # seconds between two looks
RANKS = tuple(rank_state(rank) for rank in range(4))


def samples(*parts, recorded=0.95):
    """Return the samples of a job up to now from pairs of minutes and efficiency."""
    ratios = [ratio for minutes, ratio in parts for _ in range(round(minutes * 60 / EVERY))]
    first = NOW - EVERY * (len(ratios) - 1)
    return tuple(EfficiencySample(first + EVERY * n, r, recorded, "weak", "ranker") for n, r in enumerate(ratios) if r)


def job(*parts, **others):
    """Return a job with these efficiencies; None means that it did not train, or that nothing was recorded."""
    return replace(snapshot(*RANKS), efficiency=samples(*parts, **others))


def detect(*parts, **others):
    return next(iter(EfficiencyLow().detect(job(*parts, **others))), None)


def test_job_that_had_95_percent_at_this_size_and_has_80_is_below_its_baseline():
    finding = detect((11, 0.8))
    assert (finding.detector, finding.cause, finding.severity) == ("efficiency", "below_baseline", "warning")
    assert (finding.ranks, finding.hosts, finding.runbook) == ((), (), "docs/runbooks.md#below_baseline")
    assert (
        "has reached 84% of the efficiency recorded for ranker at this size (threshold 90%) for 10 min"
        in finding.summary
    )
    assert "efficiency is 80.0%, and 95.0% was recorded (weak scaling)" in finding.summary
    assert finding.detected - finding.onset == pytest.approx(600.0)


def test_slow_job_is_reported_after_ten_minutes_of_a_low_median():
    assert detect((20, 0.95), (14, 0.8)) is None
    assert detect((20, 0.95), (16, 0.8)) is not None


def test_evaluation_between_changes_nothing():
    assert detect((6, 0.8), (3, None), (6, 0.8)) is not None


def test_threshold_is_the_sites():
    (finding,) = EfficiencyLow(below_ratio=0.97, lasting_seconds=120.0).detect(job((3, 0.91)))
    assert "threshold 97%" in finding.summary


def test_cost_is_what_is_missing_of_the_baseline():
    on_gpus = tuple(replace(r, device=f"GPU-{r.rank}") for r in RANKS)
    (finding,) = EfficiencyLow().detect(replace(job((11, 0.8)), ranks=on_gpus))
    assert finding.lost_gpu_hours == pytest.approx((1 - 0.8 / 0.95) * 4 * 600 / 3600)


# -- quiet -------------------------------------------------------------------------------------------------


def test_efficiency_ignores_a_job_that_reaches_what_was_recorded():
    assert detect((40, 0.95)) is None
    assert detect((40, 0.9)) is None


def test_efficiency_reports_nothing_at_50_percent_where_52_was_recorded():
    """No figure is good or bad by itself."""
    assert detect((40, 0.5), recorded=0.52) is None


@pytest.mark.parametrize("minutes", [1, 5, 9.5])
def test_efficiency_ignores_a_young_job(minutes):
    assert detect((minutes, 0.3)) is None


def test_efficiency_reports_nothing_after_a_cold_start():
    assert detect((2, 0.3), (20, 0.95)) is None
    assert detect((2, 0.3), (9, 0.95)) is None


def test_efficiency_reports_nothing_where_no_baseline_is_known():
    assert EfficiencyLow().detect(snapshot(*RANKS)) == ()


@pytest.mark.parametrize("minutes", [1, 4])
def test_efficiency_ignores_a_short_dip(minutes):
    assert detect((20, 0.95), (minutes, 0.2)) is None
    assert detect((20, 0.95), (minutes, 0.2), (12, 0.95)) is None


def test_efficiency_ignores_what_was_before_a_long_gap():
    assert detect((15, 0.8), (11, None), (3, 0.8)) is None


def test_restarted_hub_reports_no_efficiency_finding_after_a_minute():
    """The other hub reports it, and the rules take the maximum of both."""
    assert detect((1, 0.7), recorded=0.82) is None
    assert detect((30, 0.7), recorded=0.82) is not None


def test_efficiency_ignores_a_job_that_is_over():
    over = replace(job((20, 0.8)), ranks=tuple(dead(rank) for rank in range(4)))
    assert EfficiencyLow().detect(over) == ()


# -- the end -----------------------------------------------------------------------------------------------


def test_finding_resolves_after_ten_minutes_of_a_normal_median():
    finding = detect((20, 0.8))
    assert not EfficiencyLow().can_resolve(job((20, 0.8), (8, 0.95)), finding)
    assert not EfficiencyLow().can_resolve(job((20, 0.8), (14, 0.95)), finding)
    assert EfficiencyLow().can_resolve(job((20, 0.8), (16, 0.95)), finding)


def test_fault_is_not_over_in_a_hub_that_began_anew():
    finding = detect((20, 0.8))
    assert not EfficiencyLow().can_resolve(snapshot(*RANKS), finding)
    assert not EfficiencyLow().can_resolve(job((5, 0.95)), finding)
    assert EfficiencyLow().can_resolve(job((11, 0.95)), finding)


def test_fault_is_over_with_its_job():
    over = snapshot(*(dead(rank) for rank in range(4)))
    assert EfficiencyLow().can_resolve(over, detect((20, 0.8)))


def test_efficiency_is_inert_without_a_record():
    assert EfficiencyLow().inert_reason(job((1, 0.8))) is None
    assert "nothing was recorded for its name" in EfficiencyLow().inert_reason(snapshot(*RANKS))


def test_efficiency_is_a_detector_of_the_hub():
    assert EfficiencyLow() in ALL
