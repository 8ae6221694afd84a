"""Tests of the detector `divergence`. A loss that stays NaN or infinite is reported. A few skipped steps are not."""

from dataclasses import replace

import pytest

from tests.build import NOW, dead, rank_state, snapshot
from zmon.detectors.divergence import Divergence

FINITE = {"loss": 0.5}


def job(num_steps=100, key="loss", make=rank_state, **changes):
    """Return two ranks in step 1000 of 20 ms whose loss has been NaN for `num_steps` steps."""
    of_rank = {"step": 1000, "steps": 1000, "step_seconds_total": 20.0, "world_size": 2, "report": {key: None}}
    ranks = [make(rank, **{**of_rank, **changes}) for rank in (0, 1)]
    return replace(snapshot(*ranks), not_finite={key: num_steps})


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


@pytest.mark.parametrize(
    "quiet",
    [
        pytest.param(replace(job(report=FINITE), not_finite={}), id="the loss is finite"),
        *(pytest.param(job(steps), id=f"mixed precision skips {steps} steps") for steps in (0, 1, 9)),
        *(job(key=key) for key in ("auc", "accuracy", "grad_norm", "lossless_ratio", "glossary")),
        pytest.param(job(make=dead), id="the job has ended"),
    ],
)
def test_divergence_is_quiet(quiet):
    assert detect(quiet) is None


def test_onset_is_the_last_step_with_a_finite_loss_and_all_work_since_then_is_lost():
    finding = detect(job(device="GPU-0"))
    assert finding.step == 900
    assert finding.onset == pytest.approx(NOW - 2.0)
    assert finding.lost_gpu_hours == pytest.approx(2.0 * 2 / 3600)
    assert detect(job()).lost_gpu_hours is None


def test_affected_rank_is_in_the_evidence():
    diverged = job()
    well = replace(diverged.ranks[0], report=FINITE)
    finding = detect(replace(diverged, ranks=(well, diverged.ranks[1])))
    assert finding.evidence.nan_ranks == (1,)
    assert "on 1 of 2 ranks" in finding.summary


@pytest.mark.parametrize(
    ("times", "advice"),
    [
        ({"last_step_time": NOW, "last_checkpoint_time": NOW - 600}, "Restart from the last checkpoint, 600 s old"),
        ({"last_step_time": NOW, "last_checkpoint_time": NOW - 1}, "restart from the one before"),
        ({"last_step_time": NOW - 30, "last_checkpoint_time": NOW, "step_seconds": 1.0},
         "The last checkpoint was saved 1 s ago, after that step"),
        ({}, "zmon saw no checkpoint"),
    ],
    ids=["before the onset", "after the onset", "after the last step", "missing"],
)  # fmt: skip
def test_checkpoint_before_the_onset_is_recommended(times, advice):
    assert advice in detect(job(**times)).detail


@pytest.mark.parametrize(
    ("now", "resolves"),
    [(job(make=dead), True), (job(0), False), (job(report={}), False), (job(report=FINITE), True)],
    ids=["the job has ended", "a restarted hub", "a new launch without a loss", "a new launch with a finite loss"],
)
def test_finding_resolves_with_a_finite_loss_or_the_end_of_the_job(now, resolves):
    assert Divergence().can_resolve(now, detect(job())) is resolves


def test_finding_keeps_its_id_while_the_job_goes_on():
    assert detect(job(100)).id == detect(job(400, step=1300)).id


def test_divergence_is_inert_without_a_loss():
    assert Divergence().inert_reason(job()) is None
    assert "reports a loss" in Divergence().inert_reason(job(report={"auc": 0.5}))
