"""Tests of the detector `divergence`. A loss that stays NaN or infinite is reported. A few skipped steps are not.

The rank of the first NaN is named if it is the only one in its step, and the steps of all ranks are known.
"""

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
    """Return the finding about a job, or None."""
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
        *(
            pytest.param(job(key=key), id=f"{key} is no loss")
            for key in ("auc", "accuracy", "grad_norm", "lossless_ratio", "glossary")
        ),
        pytest.param(job(make=dead), id="the job has ended"),
    ],
)
def test_divergence_is_quiet_unless_a_loss_stays_nan(quiet):
    assert detect(quiet) is None


def test_onset_is_the_last_step_with_a_finite_loss():
    finding = detect(job())
    assert finding.step == 900
    assert finding.onset == pytest.approx(NOW - 2.0)


@pytest.mark.parametrize(("device", "hours"), [("GPU-0", pytest.approx(2.0 * 2 / 3600)), ("cpu", None)])
def test_work_of_gpus_since_the_last_finite_loss_is_lost(device, hours):
    assert detect(job(device=device)).lost_gpu_hours == hours


def test_affected_rank_is_in_the_evidence():
    diverged = job()
    well = replace(diverged.ranks[0], report=FINITE)
    finding = detect(replace(diverged, ranks=(well, diverged.ranks[1])))
    assert finding.evidence.nan_ranks == (1,)
    assert "on 1 of 2 ranks" in finding.summary


CHECKPOINTS = {
    "before the onset": ({"last_step_time": NOW, "last_checkpoint_time": NOW - 600}, "the last checkpoint, 600 s old"),
    "after the onset": ({"last_step_time": NOW, "last_checkpoint_time": NOW - 1}, "restart from the one before"),
    "after the last step": (
        {"last_step_time": NOW - 30, "last_checkpoint_time": NOW, "step_seconds": 1.0}, "1 s ago, after that step"),
    "missing": ({}, "zmon saw no checkpoint"),
}  # fmt: skip


@pytest.mark.parametrize(("times", "advice"), CHECKPOINTS.values(), ids=CHECKPOINTS)
def test_checkpoint_before_the_onset_is_recommended(times, advice):
    assert advice in detect(job(**times)).detail


@pytest.mark.parametrize(
    ("now", "resolves"),
    [
        pytest.param(job(make=dead), True, id="the job has ended"),
        pytest.param(job(0), False, id="a restarted hub"),
        pytest.param(job(report={}), False, id="a new launch without a loss"),
        pytest.param(job(report=FINITE), True, id="a new launch with a finite loss"),
    ],
)
def test_finding_resolves_with_a_finite_loss_or_the_end_of_the_job(now, resolves):
    assert Divergence().can_resolve(now, detect(job())) is resolves


def test_finding_keeps_its_id_while_the_job_goes_on():
    assert detect(job(100)).id == detect(job(400, step=1300)).id


def of_steps(*since, step=1000, source="backward", report=FINITE, **changes):
    """Return ranks on two hosts by the step since which the loss of each is not finite.

    None: the loss is finite, `...`: it is unknown.
    """
    size = {"steps": step, "step_seconds_total": step / 50, "world_size": len(since)}
    ranks = [
        rank_state(
            rank, step=step, host=f"node-{'ab'[rank % 2]}", report=report,
            not_finite_since={} if first is ... else {source: first}, **{**size, **changes},
        )
        for rank, first in enumerate(since)
    ]  # fmt: skip
    return snapshot(*ranks)


def reporting(diverged, *since):
    """Return the job with losses that its ranks report, as the hub counts them and as each box has them."""
    ranks = [
        replace(r, report={"loss": None}, not_finite_since={**r.not_finite_since, "report": first})
        for r, first in zip(diverged.ranks, since, strict=True)
    ]
    return replace(diverged, ranks=tuple(ranks), not_finite={"loss": ranks[0].step - min(since) + 1})


LOCAL = of_steps(121, 121, 121, 120)
RANK_3 = "rank 3 on node-b had the first one, at step 120; the others followed at step 121"
UNKNOWN = "the first rank is unknown"
JOBS = {  # the job, the culprits, and what the summary says about the first rank; None: there is no finding
    "one rank in a backward pass, the others in the next step": (LOCAL, (3,), RANK_3),
    "three steps later": (of_steps(121, 121, 121, 120, step=123), (3,), RANK_3),
    "two steps later": (of_steps(121, 121, 121, 120, step=122), None, None),
    "the reported loss is an average, which is NaN at once": (reporting(LOCAL, 120, 120, 120, 120), (3,), RANK_3),
    "some ranks report one step later": (reporting(LOCAL, 122, 121, 121, 122), (3,), RANK_3),
    "what each rank reports, if backward is unknown": (
        reporting(of_steps(..., ..., ..., ...), 121, 121, 121, 120), (3,), RANK_3),
    "ranks that report at different times": (
        reporting(of_steps(..., ..., ..., ...), 150, 140, 130, 120), (), "rank 3 had it first, in step 120"),
    "weights that are averaged now and then": (
        of_steps(128, 128, 128, 120), (3,), "had the first one, at step 120; the others followed at step 128"),
    "the same, before ten steps": (of_steps(128, 128, 128, 120, step=129), None, None),
    "the others followed one after the other": (
        of_steps(121, 123, 126, 120), (3,), "had the first one, at step 120; the others followed at steps 121 to 126"),
    "two ranks in one step": (of_steps(121, 120, 121, 120), (), "ranks 1, 3 had it first, in step 120"),
    "two ranks in one step, before ten steps": (of_steps(121, 120, 121, 120, step=125), None, None),
    "all ranks in one step": (of_steps(120, 120, 120, 120), (), "ranks 0, 1, 2, 3 had it first, in step 120"),
    "a job of one rank": (of_steps(120), (), "rank 0 had it first, in step 120"),
    "step 0 of a job that counts from 0": (of_steps(1, 0, step=20), (1,), "at step 0; the others followed at step 1"),
    "backward is unknown on a rank, and only one reports": (
        replace(of_steps(..., 121, report={"loss": None}), not_finite={"loss": 100}), (), UNKNOWN),
    "another rank is finite": (
        replace(of_steps(120, None, report={"loss": None}), not_finite={"loss": 100}), (), UNKNOWN),
    "another rank is finite, and nobody reports": (of_steps(120, None), None, None),
    "a rank is unwatched": (
        replace(reporting(LOCAL, 120, 120, 120, 120), unwatched=(rank_state(4),)), (), UNKNOWN),
    "a rank is missing": (replace(reporting(LOCAL, 120, 120, 120, 120), missing=(4,)), (), UNKNOWN),
    "the job has ended": (of_steps(121, 121, 121, 120, alive=False), None, None),
    "a gradient scaler skips steps, with finite losses": (of_steps(None, None, None, None), None, None),
    "nothing is known": (of_steps(..., ...), None, None),
}  # fmt: skip


@pytest.mark.parametrize(("diverged", "culprits", "text"), JOBS.values(), ids=JOBS)
def test_first_rank_is_named_if_it_is_certain(diverged, culprits, text):
    finding = detect(diverged)
    assert (finding and finding.ranks) == culprits
    if finding:
        assert text in finding.summary
        assert finding.hosts == tuple(f"node-{'ab'[rank % 2]}" for rank in culprits)
        assert ("Begin with rank" in finding.detail) == bool(culprits)


def test_first_step_and_ranks_are_in_the_evidence():
    evidence = detect(of_steps(121, 120, 121, 120)).evidence
    assert (evidence.first_step, evidence.first_ranks, evidence.nan_ranks) == (120, (1, 3), (0, 1, 2, 3))
    assert {"first_step", "first_ranks"}.isdisjoint(detect(job()).evidence.names)
    assert "key" not in evidence.names  # nobody reports a loss


def test_finding_of_backward_passes_stays_open_until_all_losses_are_finite():
    finding = detect(LOCAL)
    assert not Divergence().can_resolve(of_steps(None, None, None, 120), finding)
    assert not Divergence().can_resolve(of_steps(..., ..., report={}), finding)
    assert Divergence().can_resolve(of_steps(None, None, None, None), finding)


def test_divergence_is_inert_without_a_loss():
    assert Divergence().inert_reason(job()) is None
    assert Divergence().inert_reason(job(report={}, not_finite_since={"backward": None})) is None
    assert "reports a loss" in Divergence().inert_reason(job(report={"auc": 0.5}))
