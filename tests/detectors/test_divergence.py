"""Tests of the detector `divergence`. A loss that stays NaN or infinite is reported. A few skipped steps are not."""

from dataclasses import replace

import pytest

from tests.build import NOW, dead, rank_state, snapshot
from zmon.detectors.divergence import Divergence

FINITE = 0.5


def job(num_steps=100, key="loss", **changes):
    """Return two ranks in step 1000 of 20 ms whose loss has been NaN for `num_steps` steps."""
    fields = {
        "step": 1000,
        "steps": 1000,
        "step_seconds_total": 20.0,
        "world_size": 2,
        "report": {key: None},
        **changes,
    }
    return replace(snapshot(*(rank_state(rank, **fields) for rank in (0, 1))), not_finite={key: num_steps})


def detect(diverged):
    return next(iter(Divergence().detect(diverged)), None)


@pytest.mark.parametrize(
    "key", ["loss", "train_loss", "loss_main", "loss/main", "Loss", "log_loss", "normalized_entropy"]
)
def test_loss_that_is_nan_is_critical_without_culprit(key):
    finding = detect(job(key=key))
    assert (finding.detector, finding.cause, finding.severity) == ("divergence", "divergence", "critical")
    assert (finding.ranks, finding.hosts) == ((), ())
    assert f"{key} has been NaN or infinite for 100 steps (threshold 10) on 2 of 2 ranks" in finding.summary
    assert "the last number was at step 900" in finding.summary
    assert finding.evidence.nan_ranks == (0, 1)


def test_onset_is_the_last_step_with_a_finite_loss():
    finding = detect(job(100))
    assert finding.step == 900
    assert finding.onset == pytest.approx(NOW - 2.0)


def test_affected_rank_is_in_the_evidence():
    diverged = job()
    well = replace(diverged.ranks[0], report={"loss": FINITE})
    finding = detect(replace(diverged, ranks=(well, diverged.ranks[1])))
    assert finding.evidence.nan_ranks == (1,)
    assert "on 1 of 2 ranks" in finding.summary


def test_checkpoint_before_the_onset_is_recommended():
    finding = detect(job(last_step_time=NOW, last_checkpoint_time=NOW - 600))
    assert "Restart from the last checkpoint, 600 s old" in finding.detail


def test_checkpoint_after_the_onset_is_not_recommended():
    finding = detect(job(last_step_time=NOW, last_checkpoint_time=NOW - 1))
    assert "restart from the one before" in finding.detail


def test_missing_checkpoint_is_mentioned():
    assert "zmon saw no checkpoint" in detect(job()).detail


def test_divergence_reports_nothing_when_the_loss_is_finite():
    assert detect(replace(job(report={"loss": FINITE}), not_finite={})) is None


@pytest.mark.parametrize("steps", [0, 1, 9])
def test_divergence_reports_nothing_when_mixed_precision_skips_steps(steps):
    assert detect(job(steps)) is None


@pytest.mark.parametrize("key", ["auc", "accuracy", "grad_norm", "lossless_ratio", "glossary"])
def test_divergence_ignores_values_other_than_losses(key):
    assert detect(job(key=key)) is None


def test_ended_job_is_ignored_and_its_finding_resolves():
    diverged = job()
    over = tuple(dead(r.rank, world_size=2, report=r.report) for r in diverged.ranks)
    assert detect(replace(diverged, ranks=over)) is None
    assert Divergence().can_resolve(replace(diverged, ranks=over), detect(diverged))


def test_restarted_hub_does_not_resolve_the_finding():
    assert not Divergence().can_resolve(job(0), detect(job()))


def test_finding_resolves_once_a_new_launch_reports_a_finite_loss():
    assert not Divergence().can_resolve(job(report={}), detect(job()))
    assert Divergence().can_resolve(job(report={"loss": FINITE}), detect(job()))


def test_finding_keeps_its_id_while_the_job_goes_on():
    assert detect(job(100)).id == detect(job(400, step=1300)).id


def test_divergence_is_inert_without_a_loss():
    assert Divergence().inert_reason(job()) is None
    assert "reports a loss" in Divergence().inert_reason(job(report={"auc": FINITE}))


def test_checkpoint_after_the_last_step_has_no_negative_age():
    finding = detect(job(last_step_time=NOW - 30, last_checkpoint_time=NOW, step_seconds=1.0))
    assert "The last checkpoint was saved 1 s ago, after that step" in finding.detail


def test_lost_gpu_hours_count_from_the_onset():
    assert detect(job(device="GPU-0")).lost_gpu_hours == pytest.approx(2.0 * 2 / 3600)
    assert detect(job()).lost_gpu_hours is None
