"""Test that a lost loss is reported; skipped steps and undefined values of other keys are no divergence."""

from dataclasses import replace

import pytest

from tests.build import NOW, dead, rank_state, snapshot
from zmon.detectors.divergence import Divergence

NUMBER = 0.5


def job(lasts=100, key="loss", **changes):
    """Return two ranks in step 1000 of 20 ms whose loss has been undefined for `lasts` steps."""
    fields = {
        "step": 1000,
        "steps": 1000,
        "step_seconds_total": 20.0,
        "world_size": 2,
        "report": {key: None},
        **changes,
    }
    return replace(snapshot(*(rank_state(rank, **fields) for rank in (0, 1))), not_finite={key: lasts})


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
    assert finding.evidence.saying == (0, 1)


def test_onset_is_where_it_was_a_number_last():
    finding = detect(job(100))
    assert finding.step == 900
    assert finding.onset == pytest.approx(NOW - 2.0)


def test_affected_rank_is_in_the_evidence():
    diverged = job()
    well = replace(diverged.ranks[0], report={"loss": NUMBER})
    finding = detect(replace(diverged, ranks=(well, diverged.ranks[1])))
    assert finding.evidence.saying == (1,)
    assert "on 1 of 2 ranks" in finding.summary


def test_last_checkpoint_is_what_to_start_from():
    finding = detect(job(last_step_time=NOW, last_checkpoint_time=NOW - 600))
    assert "Restart from the last checkpoint, 600 s old" in finding.detail


def test_checkpoint_that_was_saved_since_is_not_what_to_start_from():
    finding = detect(job(last_step_time=NOW, last_checkpoint_time=NOW - 1))
    assert "restart from the one before" in finding.detail


def test_missing_checkpoint_is_mentioned():
    assert "zmon saw no checkpoint" in detect(job()).detail


def test_divergence_reports_nothing_when_the_loss_is_a_number():
    assert detect(replace(job(report={"loss": NUMBER}), not_finite={})) is None


@pytest.mark.parametrize("steps", [0, 1, 9])
def test_divergence_reports_nothing_when_mixed_precision_skips_steps(steps):
    assert detect(job(steps)) is None


@pytest.mark.parametrize("key", ["auc", "accuracy", "grad_norm", "lossless_ratio", "glossary"])
def test_divergence_ignores_values_that_are_no_loss(key):
    assert detect(job(key=key)) is None


def test_divergence_ignores_a_job_that_is_over():
    diverged = job()
    over = tuple(dead(r.rank, world_size=2, report=r.report) for r in diverged.ranks)
    assert detect(replace(diverged, ranks=over)) is None
    assert Divergence().can_resolve(replace(diverged, ranks=over), detect(diverged))


def test_fault_is_not_over_when_a_hub_begins_to_count_anew():
    assert not Divergence().can_resolve(job(0), detect(job()))


def test_fault_is_not_over_before_a_new_start_reports_a_loss():
    """The fault is over once the new start reports a loss."""
    assert not Divergence().can_resolve(job(report={}), detect(job()))
    assert Divergence().can_resolve(job(report={"loss": NUMBER}), detect(job()))


def test_finding_keeps_its_id_while_the_job_goes_on():
    assert detect(job(100)).id == detect(job(400, step=1300)).id


def test_divergence_is_inert_without_a_loss():
    assert Divergence().inert_reason(job()) is None
    assert "reports a loss" in Divergence().inert_reason(job(report={"auc": NUMBER}))


def test_checkpoint_after_the_last_step_has_no_negative_age():
    finding = detect(job(last_step_time=NOW - 30, last_checkpoint_time=NOW, step_seconds=1.0))
    assert "The last checkpoint was saved 1 s ago, after that step" in finding.detail


def test_all_that_is_trained_since_is_lost():
    assert detect(job(device="GPU-0")).lost_gpu_hours == pytest.approx(2.0 * 2 / 3600)
    assert detect(job()).lost_gpu_hours is None
