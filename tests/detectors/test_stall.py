"""Tests of the detector `stall`: stopped ranks, jobs in which nothing moves, costs, and stable ids.

The other causes of a stall are tested in `endings/` and `hangs/`.
"""

import itertools
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.build import NOW, disconnected, finished, interrupted, killed, raised, rank_state, terminated, waiting, words
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


# -- lost GPU hours and the last checkpoint ----------------------------------------------------------------


def test_lost_gpu_hours_grow_during_a_stall_and_are_unknown_on_cpus():
    on_gpus = [replace(state, device=f"GPU-{state.rank}") for state in (stopped(2, 900.0), *others(2))]
    assert detect(*on_gpus).lost_gpu_hours == pytest.approx(1.0)
    assert detect(*(later(state, 900.0) for state in on_gpus)).lost_gpu_hours == pytest.approx(2.0)
    assert detect(stopped(2), *others(2)).lost_gpu_hours is None


@pytest.mark.parametrize(
    ("saved", "age", "says"),
    [
        # Rank 0 wrote it 700 s before its last step, which was 20 s ago; its clock is off by an hour.
        ([waiting(0, 20.0, last_step_time=NOW + 3600, last_checkpoint_time=NOW + 2900), waiting(1)], 720.0,
         "The last checkpoint was written 12 min ago: a restart loses the work since then."),
        ([waiting(0, 20.0, last_step_time=NOW - 40, last_checkpoint_time=NOW - 20),
          waiting(1, 20.0, last_checkpoint_time=NOW - 5000)], 20.0, "20 s ago"),
        ([waiting(0), waiting(1)], None, "zmon saw no checkpoint"),
    ],
    ids=["by the clock of its own host", "at most the time since the last step", "missing"],
)  # fmt: skip
def test_age_of_the_last_checkpoint_is_in_the_finding(saved, age, says):
    finding = detect(*saved, stopped(2), waiting(3))
    assert finding.evidence.last_checkpoint == (age and Checkpoint(age))
    assert says in finding.detail


# -- causes ------------------------------------------------------------------------------------------------

ODD = {"lease_seconds": 9.0, "overdue_seconds": 0.0}  # the lease of one rank that is not over yet
IN_EVAL = {"activity": "eval", "lease_seconds": 1800.0}
BUSY = {"lease_seconds": 900.0, "step_seconds": 20.0, "overdue_seconds": 0.0}
FIRST = {"step": 1, "lease_seconds": 1800.0, "overdue_seconds": 0.0}
DONE = {"activity": "done", "lease_seconds": None, "overdue_seconds": 0.0}
NOWHERE = {"in_flight": None, "phase": "backward"}
ASLEEP = {"process_state": "D", "blocked_seconds": 4.0}
ABORTED = finished(1, exit_status="signal SIGABRT")  # a gloo thread that outlives the interpreter, now and then
CAUSES = {  # the ranks, cause, culprits, severity, and what its text has
    "a stopped rank": (
        [stopped(2), *others(2)], "rank_frozen", (2,), "critical",
        ["kill -CONT 1002", "3 of 3 others wait in all_to_all", "2.0 s"]),
    **{f"a stopped rank during {activity}": (
        [stopped(0, activity=activity, lease_seconds=1800.0),
         *(rank_state(r, activity=activity, lease_seconds=1800.0) for r in (1, 2, 3))],
        "rank_frozen", (0,), "critical", [f"during {activity}", "no rank waits for it yet"])
       for activity in ("init", "train", "eval", "checkpoint")},
    "all ranks are stopped": ([*map(stopped, range(4))], "rank_frozen", (0, 1, 2, 3), "critical", []),
    "a rank in uninterruptible sleep past its lease": (
        [waiting(1, 5.0, **ASLEEP, in_flight=None), *others(1)], "rank_frozen", (1,), "warning", ["state D"]),
    "another rank sleeps for a moment, as it reads from a busy file system": (
        [waiting(1, process_state="D", blocked_seconds=0.1), waiting(0), waiting(2, in_flight=None), waiting(3)],
        "compute_hang", (2,), "warning", []),
    "a dead rank and a stopped rank": (
        [killed(1), stopped(2), waiting(0), waiting(3)], "rank_frozen", (2, 1), "critical", []),
    "a rank aborts after the training finished": (
        [ABORTED, *map(finished, (0, 2, 3))], "rank_exited", (1,), "warning", ["the training had finished"]),
    "a rank aborts while the others train": ([ABORTED, *others(1)], "rank_exited", (1,), "critical", []),
    "nothing moves": (
        [waiting(0, 6.0, **NOWHERE), *(waiting(rank, 5.0, **NOWHERE) for rank in (1, 2, 3))], "unknown", (), "warning",
        ["6.0 s", "lease 1.5 s", "rank 3 (backward)"]),
    "every rank is in a collective": (
        [*map(waiting, range(4))], "unknown", (), "warning", ["every rank is inside a collective"]),
    "nothing moves, and one rank has a longer lease": (
        [*map(waiting, (0, 1, 2)), waiting(3, **ODD)], "unknown", (), "warning", []),
    "an evaluation takes longer than its lease": (
        [waiting(r, 1805.0, overdue_seconds=5.0, **IN_EVAL) for r in range(4)], "unknown", (), "critical", []),
    "a rank finished before the others": ([finished(3, 60.0), *others(3)], "uneven_end", (3,), "critical", []),
}  # fmt: skip
QUIET = {
    "the job trains": [*map(rank_state, range(4))],
    "a rank was stopped only briefly": [stopped(2, 0.2), *map(rank_state, (0, 1, 3))],
    "a finished rank is stopped": [stopped(2, activity="done"), *map(rank_state, (0, 1, 3))],
    # Every read from a busy file system looks like this for a moment.
    "a rank is in uninterruptible sleep within its lease": [
        rank_state(1, process_state="D", blocked_seconds=9.0), *map(rank_state, (0, 2, 3))],
    "the leases of most ranks are not over": [waiting(0), *(waiting(rank, **ODD) for rank in (1, 2, 3))],
    "the leases are not over": [waiting(rank, 1.4) for rank in range(4)],
    "all ranks evaluate": [
        rank_state(r, **IN_EVAL, overdue_seconds=0.0, step_seconds=600.0, activity_seconds=600.0) for r in range(4)],
    **{f"the others wait during {activity} of rank 0": [
        rank_state(0, activity=activity, **BUSY), *(waiting(rank, 20.0, op="barrier") for rank in (1, 2, 3))]
       for activity in ("eval", "checkpoint")},
    "the first step takes fifty times as long": [waiting(rank, 60.0, **FIRST) for rank in range(4)],
    "a rank still moves": [*map(waiting, (0, 1, 2)), rank_state(3)],
    "ranks are done but alive": [rank_state(r, **DONE, step_seconds=100.0) for r in range(4)],
}  # fmt: skip


@pytest.mark.parametrize("what", CAUSES)
def test_stall_has_its_cause_culprits_and_severity(what):
    ranks, cause, culprits, severity, says = CAUSES[what]
    finding = detect(*ranks)
    assert (finding.cause, finding.ranks, finding.severity) == (cause, culprits, severity)
    assert not [part for part in says if part not in finding.summary + finding.detail]


@pytest.mark.parametrize("what", QUIET)
def test_stall_is_quiet(what):
    assert detect(*QUIET[what]) is None


def test_process_in_uninterruptible_sleep_cannot_be_continued():
    assert "kill -CONT" not in detect(waiting(1, 5.0, **ASLEEP, in_flight=None), *others(1)).detail


def test_unknown_cause_has_little_confidence_and_the_longest_wait_as_onset():
    finding = detect(*CAUSES["nothing moves"][0])
    assert finding.confidence < 0.5
    assert finding.onset == NOW - 6.0


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


def test_last_words_are_cut_in_the_table_but_not_in_the_evidence():
    long = words("exception", "builtins.ValueError", "x" * 1000, NOW - 1)
    finding = detect(replace(raised(1, 1.2), last_words=long), *others(1, terminated))
    assert len(finding.evidence.ranks[1].last_words) < 250
    assert len(finding.evidence.last_words.message) == 1000
