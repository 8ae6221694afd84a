"""Tests of the detector `stall`: fields and costs of a finding, and invariants, such as stable ids.

`endings/` has the tests of ranks that have ended, `hangs/` and `network/` those of jobs in which nothing moves.
"""

from dataclasses import replace

import pytest

from tests.build import NOW, disconnected, finished, killed, raised, terminated, waiting, words
from tests.detectors.stalls import detect, others, stopped
from zmon.schema.evidence import Checkpoint


def test_finding_has_all_fields():
    finding = detect(stopped(2, step=603), *others(2))
    assert (finding.schema, finding.job_id, finding.detector) == (1, "job", "stall")
    assert (finding.ranks, finding.hosts) == ((2,), ("node-a",))
    assert (finding.onset, finding.detected, finding.resolved) == (NOW - 2.0, NOW, None)
    assert finding.runbook == f"docs/runbooks.md#{finding.cause}"
    assert 0 < finding.confidence <= 1
    assert "\n" not in finding.summary
    assert len(finding.evidence.ranks) == 4


def test_rank_that_aborts_after_the_training_finished_is_a_warning():
    """A gloo thread that outlives the interpreter aborts the process now and then; the exit code is not 0."""
    aborts = finished(1, exit_status="signal SIGABRT")
    finding = detect(aborts, *(finished(rank) for rank in (0, 2, 3)))
    assert (finding.cause, finding.severity, finding.ranks) == ("rank_exited", "warning", (1,))
    assert "the training had finished" in finding.summary
    assert detect(aborts, *others(1)).severity == "critical"


# -- lost GPU hours and the last checkpoint ----------------------------------------------------------------


def test_lost_gpu_hours_grow_during_a_stall():
    on_gpus = [replace(state, device=f"GPU-{state.rank}") for state in (stopped(2, 900.0), *others(2))]
    assert detect(*on_gpus).lost_gpu_hours == pytest.approx(1.0)
    assert detect(*(later(state, 900.0) for state in on_gpus)).lost_gpu_hours == pytest.approx(2.0)


def test_lost_gpu_hours_of_a_job_on_processors_are_unknown():
    assert detect(stopped(2), *others(2)).lost_gpu_hours is None


def test_checkpoint_age_uses_the_clock_of_its_own_host():
    """Rank 0 wrote the checkpoint 700 s before its last step, which was 20 s ago; its clock is off by an hour."""
    saves = waiting(0, 20.0, last_step_time=NOW + 3600, last_checkpoint_time=NOW + 2900)
    finding = detect(saves, stopped(2), waiting(1), waiting(3))
    assert finding.evidence.last_checkpoint == Checkpoint(720.0)
    assert "The last checkpoint was written 12 min ago: a restart loses the work since then." in finding.detail


def test_checkpoint_age_is_at_most_the_time_since_the_last_step():
    old = waiting(1, 20.0, last_checkpoint_time=NOW - 5000)
    fresh = waiting(0, 20.0, last_step_time=NOW - 40, last_checkpoint_time=NOW - 20)
    assert detect(old, fresh, stopped(2), waiting(3)).evidence.last_checkpoint == Checkpoint(20.0)


def test_missing_checkpoint_is_mentioned():
    finding = detect(stopped(2), *others(2))
    assert finding.evidence.last_checkpoint is None
    assert "zmon saw no checkpoint" in finding.detail


# -- torch's own timeout ----------------------------------------------------------------------------------


def test_stall_says_when_torch_aborts_the_collective():
    ranks = stopped(2, 188.0), waiting(0, 188.0), waiting(1, 180.0), waiting(3, 180.0)
    ranks = [replace(state, labels={"collective_timeout_seconds": "600"}) for state in ranks]
    assert detect(*ranks).summary.endswith("; torch aborts the collective in 412 s")


# -- invariants -------------------------------------------------------------------------------------------

SCENES = {
    "killed": [disconnected(0, 1.1), disconnected(1, 1.05), killed(2, 1.0), disconnected(3, 1.02)],
    "raised": [terminated(0), raised(1, 1.25), terminated(2), disconnected(3, 1.1)],
    "stopped": [waiting(0), waiting(1), stopped(2), waiting(3)],
    "blocked": [waiting(0, process_state="D", blocked_seconds=3.0), waiting(1), waiting(2), waiting(3)],
    "silent": [waiting(0), waiting(1), waiting(2), waiting(3, in_flight=None)],
}


def later(state, seconds=5.0, steps=0):
    """Return the same rank one pass later."""
    return replace(
        state,
        gone_seconds=state.gone_seconds and state.gone_seconds + seconds,
        stopped_seconds=state.stopped_seconds and state.stopped_seconds + seconds,
        step=state.step + steps,
        step_seconds=state.step_seconds if steps else state.step_seconds + seconds,
        overdue_seconds=state.overdue_seconds and state.overdue_seconds + seconds,
    )


@pytest.mark.parametrize("scene", SCENES)
def test_finding_is_the_same_from_pass_to_pass(scene):
    first = detect(*SCENES[scene])
    second = detect(*map(later, SCENES[scene]), time=NOW + 5)
    assert (second.id, second.onset) == (first.id, pytest.approx(first.onset))
    assert second.detected == NOW + 5


@pytest.mark.parametrize("scene", ["killed", "stopped"])
def test_finding_keeps_its_id_while_other_ranks_finish_their_step(scene):
    """Ranks are a step ahead if no collective follows, or go on if the job tolerates the loss of a rank."""
    ranks = [replace(s, alive=True, gone_seconds=None, last_words=None) if s.last_words else s for s in SCENES[scene]]
    first = detect(*ranks)
    moved = [later(s, steps=0 if s.rank in first.ranks else 1) for s in ranks]
    assert detect(*moved, time=NOW + 5).id == first.id


def test_different_faults_launches_and_jobs_have_different_ids():
    ids = {detect(*SCENES[scene]).id for scene in ("killed", "raised", "silent")}
    again = detect(*(replace(s, run_uid=f"again-{s.rank}") for s in SCENES["killed"]))
    another_job = detect(*(replace(s, job_id="other") for s in SCENES["killed"]))
    assert len(ids | {again.id, another_job.id}) == 5


def test_last_words_are_cut_in_the_table_but_not_in_the_evidence():
    long = words("exception", "builtins.ValueError", "bad\n" + "x" * 1000, NOW - 1)
    finding = detect(replace(raised(1, 1.2), last_words=long), *others(1, terminated))
    assert len(finding.evidence.ranks[1].last_words) < 250
    assert finding.evidence.last_words.message == long.message
