"""Has the loss run away for good? Single skipped steps and values that may be undefined are no divergence."""

from dataclasses import replace

import pytest

from tests.build import NOW, dead, rank_state, snapshot
from zmon.detectors.divergence import Divergence

NUMBER = 0.5


def job(lasts=100, key="loss", **changes):
    """Two ranks in step 1000 of 20 ms that have said so for so many steps."""
    told = {"step": 1000, "steps": 1000, "step_seconds_total": 20.0, "world_size": 2, "report": {key: None}, **changes}
    return replace(snapshot(*(rank_state(rank, **told) for rank in (0, 1))), not_finite={key: lasts})


def detect(seen):
    return next(iter(Divergence().detect(seen)), None)


@pytest.mark.parametrize(
    "key", ["loss", "train_loss", "loss_main", "loss/main", "Loss", "log_loss", "normalized_entropy"]
)
def test_loss_that_is_no_number_is_critical_and_nobodys_fault(key):
    found = detect(job(key=key))
    assert (found.detector, found.cause, found.severity) == ("divergence", "divergence", "critical")
    assert (found.ranks, found.hosts) == ((), ())
    assert f"{key} has been NaN or infinite for 100 steps (threshold 10) on 2 of 2 ranks" in found.summary
    assert "the last number was at step 900" in found.summary
    assert found.evidence.saying == (0, 1)


def test_onset_is_where_it_was_a_number_last():
    found = detect(job(100))
    assert found.step == 900
    assert found.onset == pytest.approx(NOW - 2.0)


def test_rank_that_says_it_is_in_the_evidence():
    seen = job()
    well = replace(seen.ranks[0], report={"loss": NUMBER})
    found = detect(replace(seen, ranks=(well, seen.ranks[1])))
    assert found.evidence.saying == (1,)
    assert "on 1 of 2 ranks" in found.summary


def test_last_checkpoint_is_what_to_start_from():
    found = detect(job(last_step_time=NOW, last_checkpoint_time=NOW - 600))
    assert "Restart from the last checkpoint, 600 s old" in found.detail


def test_checkpoint_that_was_saved_since_is_not_what_to_start_from():
    found = detect(job(last_step_time=NOW, last_checkpoint_time=NOW - 1))
    assert "restart from the one before" in found.detail


def test_without_a_checkpoint_it_says_so():
    assert "zmon saw no checkpoint" in detect(job()).detail


def test_divergence_is_quiet_when_the_loss_is_a_number():
    assert detect(replace(job(report={"loss": NUMBER}), not_finite={})) is None


@pytest.mark.parametrize("steps", [0, 1, 9])
def test_divergence_is_quiet_when_mixed_precision_skips_steps(steps):
    assert detect(job(steps)) is None


@pytest.mark.parametrize("key", ["auc", "accuracy", "grad_norm", "lossless_ratio", "glossary"])
def test_divergence_is_quiet_about_values_that_are_no_loss(key):
    assert detect(job(key=key)) is None


def test_divergence_is_quiet_about_a_job_that_is_over():
    seen = job()
    over = tuple(dead(r.rank, world_size=2, report=r.report) for r in seen.ranks)
    assert detect(replace(seen, ranks=over)) is None
    assert Divergence().sees(replace(seen, ranks=over), detect(seen))


def test_fault_is_not_over_when_a_hub_begins_to_count_anew():
    assert not Divergence().sees(job(0), detect(job()))


def test_fault_is_not_over_before_a_new_start_tells_a_loss():
    """It is over once it does."""
    assert not Divergence().sees(job(report={}), detect(job()))
    assert Divergence().sees(job(report={"loss": NUMBER}), detect(job()))


def test_finding_keeps_its_id_while_the_job_goes_on():
    assert detect(job(100)).id == detect(job(400, step=1300)).id


def test_divergence_says_of_whom_it_can_say_nothing():
    assert Divergence().inert(job()) is None
    assert "reports a loss" in Divergence().inert(job(report={"auc": NUMBER}))


def test_age_of_a_checkpoint_that_was_written_after_the_last_step_is_not_negative():
    found = detect(job(last_step_time=NOW - 30, last_checkpoint_time=NOW, step_seconds=1.0))
    assert "The last checkpoint was saved 1 s ago, after that step" in found.detail


def test_all_that_is_trained_since_is_lost():
    assert detect(job(device="GPU-0")).lost_gpu_hours == pytest.approx(2.0 * 2 / 3600)
    assert detect(job()).lost_gpu_hours is None
