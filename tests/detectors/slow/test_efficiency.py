"""Tests of the detector `efficiency`.

A job is reported if it has been slower than recorded jobs of its name for ten minutes.
"""

from dataclasses import replace

import pytest

from tests.build import NOW, dead, rank_state, snapshot
from zmon.detectors import ALL
from zmon.detectors.slow.efficiency import EfficiencyLow
from zmon.schema.curve import EfficiencySample

SAMPLE_SECONDS = 30.0  # time between two samples
RANKS = tuple(rank_state(rank) for rank in range(4))


def samples(*parts, recorded=0.95):
    """Return the samples of a job up to now from pairs of minutes and efficiency."""
    ratios = [ratio for minutes, ratio in parts for _ in range(round(minutes * 60 / SAMPLE_SECONDS))]
    first = NOW - SAMPLE_SECONDS * (len(ratios) - 1)
    return tuple(
        EfficiencySample(first + SAMPLE_SECONDS * n, r, recorded, "weak", "ranker") for n, r in enumerate(ratios) if r
    )


def job(*parts, **others):
    """Return a job with these efficiencies; None means that it did not train, or that nothing was recorded."""
    return replace(snapshot(*RANKS), efficiency=samples(*parts, **others))


def detect(*parts, **others):
    return next(iter(EfficiencyLow().detect(job(*parts, **others))), None)


def test_job_below_its_recorded_efficiency_is_reported():
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


def test_pause_for_evaluation_does_not_reset_the_ten_minutes():
    assert detect((6, 0.8), (3, None), (6, 0.8)) is not None


def test_configured_thresholds_are_used():
    (finding,) = EfficiencyLow(below_ratio=0.97, lasting_seconds=120.0).detect(job((3, 0.91)))
    assert "threshold 97%" in finding.summary


def test_lost_gpu_hours_are_the_share_missing_from_the_baseline():
    on_gpus = tuple(replace(r, device=f"GPU-{r.rank}") for r in RANKS)
    (finding,) = EfficiencyLow().detect(replace(job((11, 0.8)), ranks=on_gpus))
    assert finding.lost_gpu_hours == pytest.approx((1 - 0.8 / 0.95) * 4 * 600 / 3600)


# -- quiet -------------------------------------------------------------------------------------------------


def test_efficiency_ignores_a_job_near_its_recorded_efficiency():
    assert detect((40, 0.95)) is None
    assert detect((40, 0.9)) is None


def test_efficiency_of_50_percent_is_not_reported_if_52_was_recorded():
    """Only the ratio to the recorded efficiency counts."""
    assert detect((40, 0.5), recorded=0.52) is None


@pytest.mark.parametrize("minutes", [1, 5, 9.5])
def test_efficiency_ignores_a_young_job(minutes):
    assert detect((minutes, 0.3)) is None


def test_efficiency_reports_nothing_after_a_cold_start():
    assert detect((2, 0.3), (20, 0.95)) is None
    assert detect((2, 0.3), (9, 0.95)) is None


def test_efficiency_reports_nothing_without_a_recorded_efficiency():
    assert EfficiencyLow().detect(snapshot(*RANKS)) == ()


@pytest.mark.parametrize("minutes", [1, 4])
def test_efficiency_ignores_a_short_dip(minutes):
    assert detect((20, 0.95), (minutes, 0.2)) is None
    assert detect((20, 0.95), (minutes, 0.2), (12, 0.95)) is None


def test_efficiency_ignores_samples_before_a_long_gap():
    assert detect((15, 0.8), (11, None), (3, 0.8)) is None


def test_restarted_hub_reports_low_efficiency_only_after_enough_samples():
    """If there are two hubs, the other one still reports the finding, and the rules take the maximum of both."""
    assert detect((1, 0.7), recorded=0.82) is None
    assert detect((30, 0.7), recorded=0.82) is not None


def test_efficiency_ignores_an_ended_job():
    over = replace(job((20, 0.8)), ranks=tuple(dead(rank) for rank in range(4)))
    assert EfficiencyLow().detect(over) == ()


# -- resolution --------------------------------------------------------------------------------------------


def test_finding_resolves_after_ten_minutes_of_a_normal_median():
    finding = detect((20, 0.8))
    assert not EfficiencyLow().can_resolve(job((20, 0.8), (8, 0.95)), finding)
    assert not EfficiencyLow().can_resolve(job((20, 0.8), (14, 0.95)), finding)
    assert EfficiencyLow().can_resolve(job((20, 0.8), (16, 0.95)), finding)


def test_restarted_hub_resolves_only_after_enough_normal_samples():
    finding = detect((20, 0.8))
    assert not EfficiencyLow().can_resolve(snapshot(*RANKS), finding)
    assert not EfficiencyLow().can_resolve(job((5, 0.95)), finding)
    assert EfficiencyLow().can_resolve(job((11, 0.95)), finding)


def test_finding_resolves_when_its_job_ends():
    over = snapshot(*(dead(rank) for rank in range(4)))
    assert EfficiencyLow().can_resolve(over, detect((20, 0.8)))


def test_efficiency_is_inert_without_a_record():
    assert EfficiencyLow().inert_reason(job((1, 0.8))) is None
    assert "nothing was recorded for its name" in EfficiencyLow().inert_reason(snapshot(*RANKS))


def test_efficiency_is_a_detector_of_the_hub():
    assert EfficiencyLow() in ALL
