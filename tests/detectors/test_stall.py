"""Tests of the detector `stall`: stopped ranks, jobs in which nothing moves, costs, and stable ids.

The other causes of a stall are tested in `parts/`.
"""

import itertools
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.build import NOW, disconnected, finished, interrupted, killed, raised, rank_state, terminated, waiting, words
from tests.detectors.stalls import detect, others, stopped
from zmon.schema.evidence import Checkpoint


def test_stall_reports_nothing_while_the_job_trains():
    assert detect(*map(rank_state, range(4))) is None


def test_finding_has_all_fields():
    finding = detect(stopped(2, step=603), *others(2))
    assert (finding.schema, finding.job_id, finding.detector) == (1, "job", "stall")
    assert (finding.ranks, finding.hosts) == ((2,), ("node-a",))
    assert (finding.onset, finding.detected, finding.resolved) == (NOW - 2.0, NOW, None)
    assert finding.runbook == f"docs/runbooks.md#{finding.cause}"
    assert 0 < finding.confidence <= 1
    assert "\n" not in finding.summary
    assert len(finding.evidence.ranks) == 4


# -- lost GPU hours and the last checkpoint ----------------------------------------------------------------


def test_lost_gpu_hours_grow_during_a_stall_and_are_unknown_on_cpus():
    on_gpus = [replace(state, device=f"GPU-{state.rank}") for state in (stopped(2, 900.0), *others(2))]
    assert detect(*on_gpus).lost_gpu_hours == pytest.approx(1.0)
    assert detect(*(later(state, 900.0) for state in on_gpus)).lost_gpu_hours == pytest.approx(2.0)
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


# -- rank_frozen -------------------------------------------------------------------------------------------


def test_stopped_rank_is_named_with_the_command_that_continues_the_process():
    finding = detect(stopped(2), *others(2))
    assert (finding.cause, finding.ranks, finding.severity) == ("rank_frozen", (2,), "critical")
    assert "kill -CONT 1002" in finding.detail
    assert "3 of 3 others wait in all_to_all" in finding.summary
    assert "2.0 s" in finding.summary


@pytest.mark.parametrize("activity", ["init", "train", "eval", "checkpoint"])
def test_stopped_rank_is_named_during_any_activity(activity):
    lease = {"activity": activity, "lease_seconds": 1800.0}
    finding = detect(stopped(0, **lease), *(rank_state(r, **lease) for r in (1, 2, 3)))
    assert (finding.cause, finding.ranks) == ("rank_frozen", (0,))
    assert f"during {activity}" in finding.summary
    assert "no rank waits for it yet" in finding.summary


def test_all_stopped_ranks_are_named():
    assert detect(*map(stopped, range(4))).ranks == (0, 1, 2, 3)


def test_stall_reports_nothing_if_a_rank_was_stopped_only_briefly():
    assert detect(stopped(2, 0.2), *map(rank_state, (0, 1, 3))) is None


def test_stall_reports_nothing_if_a_finished_rank_is_stopped():
    assert detect(stopped(2, activity="done"), *map(rank_state, (0, 1, 3))) is None


def test_rank_in_uninterruptible_sleep_past_its_lease_is_named():
    finding = detect(waiting(1, 5.0, process_state="D", blocked_seconds=4.0, in_flight=None), *others(1))
    assert (finding.cause, finding.ranks) == ("rank_frozen", (1,))
    assert "state D" in finding.summary
    assert "kill -CONT" not in finding.detail


def test_stall_ignores_uninterruptible_sleep_within_the_lease():
    """Every read from a busy file system looks like this for a moment."""
    assert detect(rank_state(1, process_state="D", blocked_seconds=9.0), *map(rank_state, (0, 2, 3))) is None


def test_rank_that_sleeps_for_a_moment_is_not_the_culprit():
    """All ranks are past their leases because of rank 2; rank 1 reads from a busy file system."""
    reads = waiting(1, process_state="D", blocked_seconds=0.1)
    finding = detect(reads, waiting(0), waiting(2, in_flight=None), waiting(3))
    assert (finding.cause, finding.ranks) == ("compute_hang", (2,))


def test_dead_rank_and_stopped_rank_are_both_named():
    assert set(detect(killed(1), stopped(2), waiting(0), waiting(3)).ranks) == {1, 2}


def test_rank_that_aborts_after_the_training_finished_is_a_warning():
    """A gloo thread that outlives the interpreter aborts the process now and then; the exit code is not 0."""
    last_words = finished(1).last_words
    ends = [finished(rank) for rank in (0, 2, 3)]
    finding = detect(finished(1, exit_status="signal SIGABRT", last_words=last_words), *ends)
    assert (finding.cause, finding.severity, finding.ranks) == ("rank_exited", "warning", (1,))
    assert "the training had finished" in finding.summary
    assert detect(finished(1, exit_status="signal SIGABRT"), *map(waiting, (0, 2, 3))).severity == "critical"


# -- nothing moves -----------------------------------------------------------------------------------------


def test_cause_is_unknown_if_nothing_moves():
    nowhere = {"in_flight": None, "phase": "backward"}
    finding = detect(waiting(0, 6.0, **nowhere), *(waiting(rank, 5.0, **nowhere) for rank in (1, 2, 3)))
    assert (finding.cause, finding.ranks, finding.severity) == ("unknown", (), "warning")
    assert finding.confidence < 0.5
    assert "6.0 s" in finding.summary
    assert "lease 1.5 s" in finding.summary
    assert "rank 3 (backward)" in finding.summary
    assert finding.onset == NOW - 6.0


def test_summary_says_that_every_rank_is_in_a_collective():
    assert "every rank is inside a collective" in detect(*map(waiting, range(4))).summary


def test_longest_lease_does_not_delay_the_finding():
    """The lease of rank 3 is not over yet, but all ranks take the same steps."""
    odd = waiting(3, 5.0, lease_seconds=9.0, overdue_seconds=0.0)
    assert detect(*map(waiting, (0, 1, 2)), odd).cause == "unknown"


def test_stall_reports_nothing_within_the_lease_of_most_ranks():
    odd = [waiting(rank, 5.0, lease_seconds=9.0, overdue_seconds=0.0) for rank in (1, 2, 3)]
    assert detect(waiting(0), *odd) is None


def test_stall_reports_nothing_within_the_lease():
    assert detect(*(waiting(rank, 1.4) for rank in range(4))) is None


def test_stall_reports_nothing_during_evaluation():
    lease = {"activity": "eval", "lease_seconds": 1800.0, "overdue_seconds": 0.0}
    assert detect(*(rank_state(r, **lease, step_seconds=600.0, activity_seconds=600.0) for r in range(4))) is None


@pytest.mark.parametrize("activity", ["eval", "checkpoint"])
def test_stall_reports_nothing_while_rank_0_evaluates_and_the_others_wait(activity):
    busy = rank_state(0, activity=activity, lease_seconds=900.0, step_seconds=20.0, overdue_seconds=0.0)
    assert detect(busy, *(waiting(rank, 20.0, op="barrier") for rank in (1, 2, 3))) is None


def test_stall_reports_nothing_during_a_first_step_fifty_times_longer():
    first = {"step": 1, "lease_seconds": 1800.0, "overdue_seconds": 0.0}
    assert detect(*(waiting(rank, 60.0, **first) for rank in range(4))) is None


def test_stall_reports_nothing_while_a_rank_still_moves():
    assert detect(*map(waiting, (0, 1, 2)), rank_state(3)) is None


def test_overrun_evaluation_is_reported():
    lease = {"activity": "eval", "lease_seconds": 1800.0}
    assert detect(*(waiting(r, 1805.0, overdue_seconds=5.0, **lease) for r in range(4))).cause == "unknown"


def test_stall_is_reported_if_a_rank_finished_before_the_others():
    assert detect(finished(3, 60.0), *others(3)).cause == "uneven_end"


def test_stall_ignores_ranks_that_are_done_but_alive():
    done = {"activity": "done", "lease_seconds": None, "overdue_seconds": 0.0}
    assert detect(*(rank_state(r, **done, step_seconds=100.0) for r in range(4))) is None


# -- invariants -------------------------------------------------------------------------------------------

SCENES = {
    "killed": [disconnected(0, 1.1), disconnected(1, 1.05), killed(2, 1.0), disconnected(3, 1.02)],
    "raised": [terminated(0), raised(1, 1.25), terminated(2), disconnected(3, 1.1)],
    "stopped": [waiting(0), waiting(1), stopped(2), waiting(3)],
    "blocked": [waiting(0, process_state="D", blocked_seconds=3.0), waiting(1), waiting(2), waiting(3)],
    "silent": [waiting(0), waiting(1), waiting(2), waiting(3, in_flight=None)],
    "cancelled": [terminated(0), interrupted(1), disconnected(2), terminated(3)],
    "healthy": [rank_state(rank) for rank in range(4)],
}


@pytest.mark.parametrize("scene", SCENES)
def test_culprit_follows_a_permutation_of_the_ranks(scene):
    before = detect(*SCENES[scene])
    for order in itertools.permutations(range(4)):
        after = detect(*(replace(state, rank=order[state.rank]) for state in SCENES[scene]))
        if before is None:
            assert after is None
        else:
            assert sorted(after.ranks) == sorted(order[rank] for rank in before.ranks)
            assert (after.cause, after.severity) == (before.cause, before.severity)


@settings(max_examples=60, deadline=None)
@given(scene=st.sampled_from(sorted(SCENES)), shifts=st.lists(st.floats(-60, 60), min_size=4, max_size=4))
def test_host_clocks_do_not_change_the_finding(scene, shifts):
    """Four hosts with one rank each, each with its own clock."""

    def shifted(state, shift):
        last_words = state.last_words and replace(state.last_words, time=state.last_words.time + shift)
        return replace(state, host=f"node-{state.rank}", start=state.start + shift, last_words=last_words)

    true = detect(*(shifted(state, 0.0) for state in SCENES[scene]))
    finding = detect(*(shifted(state, shift) for state, shift in zip(SCENES[scene], shifts, strict=True)))
    assert (finding and (finding.cause, finding.ranks, finding.severity)) == (
        true and (true.cause, true.ranks, true.severity)
    )


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


@pytest.mark.parametrize("scene", ["killed", "raised", "stopped", "blocked", "silent"])
def test_finding_keeps_its_id_and_onset_from_pass_to_pass(scene):
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


def test_lost_gpu_hours_are_unknown_without_gpus():
    assert detect(*SCENES["stopped"]).lost_gpu_hours is None
    on_gpus = [replace(s, device=f"GPU-{s.rank}") for s in SCENES["stopped"]]
    assert detect(*on_gpus).lost_gpu_hours == pytest.approx(2.0 * 4 / 3600)


def test_last_words_are_cut_in_the_table_but_not_in_the_evidence():
    long = words("exception", "builtins.ValueError", "x" * 1000, NOW - 1)
    finding = detect(replace(raised(1, 1.2), last_words=long), *others(1, terminated))
    assert len(finding.evidence.ranks[1].last_words) < 250
    assert len(finding.evidence.last_words.message) == 1000
