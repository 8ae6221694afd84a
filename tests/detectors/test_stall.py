"""Has the job stopped moving, and because of whom? Every cause, and the quiet case that looks like it."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.build import (
    NOW,
    agent_report,
    dead,
    disconnected,
    finished,
    interrupted,
    killed,
    raised,
    rank_state,
    snapshot,
    terminated,
    waiting,
    words,
)
from zmon.detectors.stall import Stall
from zmon.timeline import snapshots

STALL = Stall()


def detect(*ranks, **changes):
    return next(iter(STALL.detect(snapshot(*ranks, **changes))), None)


def others(but, state=waiting):
    """The other three ranks."""
    return [state(rank) for rank in range(4) if rank != but]


def stopped(rank, seconds=2.0, **changes):
    return rank_state(rank, process_state="T", stopped_seconds=seconds, step_seconds=seconds, **changes)


def test_stall_is_quiet_while_the_job_trains():
    assert detect(*map(rank_state, range(4))) is None


def test_finding_says_all_that_the_contract_asks_for():
    found = detect(stopped(2, step=603), *others(2))
    assert (found.schema, found.job_id, found.detector) == (1, "job", "stall")
    assert (found.ranks, found.hosts) == ((2,), ("node-a",))
    assert (found.onset, found.detected, found.resolved) == (NOW - 2.0, NOW, None)
    assert found.runbook == f"docs/runbooks.md#{found.cause}"
    assert 0 < found.confidence <= 1
    assert "\n" not in found.summary
    assert len(found.evidence["ranks"]) == 4


# -- rank_exited -------------------------------------------------------------------------------------------


def test_killed_rank_is_named_and_its_victims_are_not():
    found = detect(killed(2), *others(2, disconnected))
    assert (found.cause, found.ranks, found.severity) == ("rank_exited", (2,), "critical")
    assert "SIGKILL" in found.summary
    assert "nothing will start it again" in found.summary


def test_killed_rank_is_named_although_a_peer_that_raised_was_seen_gone_before_it():
    """The agent looks ten times a second: deaths within three looks have no order."""
    assert detect(killed(2, 1.0), raised(0, 1.2, "all_to_all failed"), *map(disconnected, (1, 3))).ranks == (2,)


def test_launchers_sigkill_half_a_minute_later_is_not_the_cause():
    """torchrun kills what has not gone 30 s after its SIGTERM."""
    assert detect(raised(1, 31.0), terminated(0, 30.9), terminated(2, 30.9), killed(3, 1.0)).ranks == (1,)


def test_killed_rank_is_named_while_its_peers_still_wait():
    assert detect(killed(2), *others(2)).ranks == (2,)


def test_stall_is_quiet_until_the_deaths_have_settled():
    """Were it to speak at once it might name a victim: the agent may see that one first."""
    peers = [waiting(rank, 0.5) for rank in (1, 2, 3)]
    assert detect(disconnected(0, 0.1), *peers) is None
    assert detect(killed(0, 0.4), *peers) is None
    assert detect(killed(0, 0.5), *peers) is not None


def test_stall_is_quiet_about_ranks_that_do_not_move_until_a_fresh_death_has_settled():
    assert detect(raised(2, 0.2), *others(2)) is None
    assert detect(raised(2, 0.6), *others(2)).cause == "rank_exited"


def test_exception_is_named_with_its_first_line():
    found = detect(raised(1, 1.2, "bad batch 17\nin shard 3"), *others(1, terminated))
    assert (found.cause, found.ranks) == ("rank_exited", (1,))
    assert "ValueError: bad batch 17;" in found.summary
    assert found.evidence["last_words"].message == "bad batch 17\nin shard 3"


def test_exception_without_a_message_is_named_by_its_type():
    found = detect(raised(1, 1.2, ""), *others(1, terminated))
    assert "ValueError:" in found.summary


def test_exit_behind_pythons_back_is_named_with_its_code():
    found = detect(dead(3, exit_status="exit code 1"), *others(3, disconnected))
    assert (found.cause, found.ranks) == ("rank_exited", (3,))
    assert "exit code 1" in found.summary


def test_rank_that_left_with_a_code_is_named():
    left = finished(3, exit_status="exit code 3")
    assert detect(left, *others(3)).ranks == (3,)
    assert "exit code 3" in detect(left, *others(3)).summary


def test_death_of_which_nothing_is_known_is_named_without_a_guess():
    assert "killed without a word" in detect(dead(3), *others(3)).summary


def test_stall_is_quiet_when_the_run_finishes():
    assert detect(*map(finished, range(4))) is None


def test_stall_is_quiet_while_the_last_ranks_finish():
    assert detect(finished(0), finished(1), rank_state(2), rank_state(3)) is None


def test_stall_is_quiet_when_all_ranks_are_terminated():
    assert detect(*map(terminated, range(4))) is None


def test_stall_is_quiet_when_terminated_ranks_lose_their_peers():
    assert detect(terminated(0), terminated(1, 1.1), disconnected(2, 1.05), disconnected(3)) is None


def test_stall_is_quiet_after_ctrl_c_whatever_each_rank_makes_of_it():
    for mixed in itertools.permutations([interrupted, disconnected, interrupted, terminated]):
        assert detect(*(how(rank, 1.0 + rank * 0.03) for rank, how in enumerate(mixed))) is None


def test_stall_is_quiet_while_a_cancelled_job_winds_down():
    assert detect(terminated(0), terminated(1), rank_state(2), rank_state(3)) is None


def test_stall_is_quiet_while_only_victims_are_gone():
    """The one they died of is about to be seen."""
    assert detect(disconnected(0), disconnected(1), waiting(2, 1.0), waiting(3, 1.0)) is None


def test_stall_is_quiet_about_victims_while_some_ranks_are_out_of_sight():
    """The one they died of may be there."""
    assert detect(disconnected(0), disconnected(1), unwatched=[waiting(2), waiting(3)]) is None


def test_victims_do_not_hide_that_nothing_moves():
    assert detect(disconnected(0), disconnected(1), waiting(2), waiting(3)).cause == "unknown"


def test_victims_alone_are_unknown_once_nobody_is_left():
    found = detect(*map(disconnected, range(4)))
    assert (found.cause, found.ranks, found.severity) == ("unknown", (), "critical")
    assert "all 4 ranks died of broken connections" in found.summary


@pytest.mark.parametrize("gone", [0.6, 10.0, 29.9])
def test_death_is_a_warning_while_the_launcher_may_restart_it(gone):
    ranks = [killed(2, gone), *(terminated(rank, gone - 0.2) for rank in (0, 1, 3))]
    found = detect(*(replace(rank, max_restarts=3) for rank in ranks))
    assert (found.cause, found.severity) == ("rank_exited", "warning")
    assert "3 restarts left" in found.summary


def test_death_is_critical_when_no_restart_came():
    assert detect(replace(killed(2, 30.0), max_restarts=3), *others(2, terminated)).severity == "critical"


def test_death_is_critical_at_once_when_no_restart_is_left_or_nobody_restarts():
    spent = {"max_restarts": 3, "restart_count": 3}
    assert detect(replace(killed(2), **spent), *others(2, terminated)).severity == "critical"
    assert detect(replace(killed(2), max_restarts=None), *others(2, terminated)).severity == "critical"


def test_stall_is_quiet_once_the_launcher_has_restarted_the_job():
    before = [replace(r, start=NOW - 60) for r in (killed(2, 5.0), *others(2, terminated))]
    again = [rank_state(r, attempt=1, restart_count=1, start=NOW - 3, activity="init") for r in range(4)]
    (found,) = snapshots([agent_report(*before, *again)], [], [], NOW)
    assert STALL.detect(found) == ()


# -- what it costs, and what a new start costs -------------------------------------------------------------


def test_gpu_hours_grow_while_the_job_stands_and_are_unknown_of_processors():
    on_gpus = [replace(state, device=f"GPU-{state.rank}") for state in (stopped(2, 900.0), *others(2))]
    assert detect(*on_gpus).lost_gpu_hours == pytest.approx(1.0)
    assert detect(*(later(state, 900.0) for state in on_gpus)).lost_gpu_hours == pytest.approx(2.0)
    assert detect(stopped(2), *others(2)).lost_gpu_hours is None


def test_age_of_the_last_checkpoint_is_told_by_the_clock_of_its_own_host():
    """Rank 0 wrote it 700 s before its last step, which was 20 s ago; the clock of its host is an hour off."""
    saves = waiting(0, 20.0, last_step_time=NOW + 3600, last_checkpoint_time=NOW + 2900)
    found = detect(saves, stopped(2), waiting(1), waiting(3))
    assert found.evidence["last_checkpoint"] == {"seconds_ago": 720.0}
    assert "The last checkpoint was written 12 min ago: that much is lost by a new start." in found.detail


def test_newest_checkpoint_counts_and_one_after_the_last_step_is_as_old_as_the_step_is():
    old = waiting(1, 20.0, last_checkpoint_time=NOW - 5000)
    fresh = waiting(0, 20.0, last_step_time=NOW - 40, last_checkpoint_time=NOW - 20)
    assert detect(old, fresh, stopped(2), waiting(3)).evidence["last_checkpoint"] == {"seconds_ago": 20.0}


def test_job_of_which_no_checkpoint_was_seen_is_told_so():
    found = detect(stopped(2), *others(2))
    assert found.evidence["last_checkpoint"] is None
    assert "No checkpoint was seen" in found.detail


# -- rank_frozen -------------------------------------------------------------------------------------------


def test_stopped_rank_is_named_with_the_command_that_frees_it():
    found = detect(stopped(2), *others(2))
    assert (found.cause, found.ranks, found.severity) == ("rank_frozen", (2,), "critical")
    assert "kill -CONT 1002" in found.detail
    assert "3 of 3 others wait in all_to_all" in found.summary
    assert "2.0 s" in found.summary


@pytest.mark.parametrize("activity", ["init", "train", "eval", "checkpoint"])
def test_stopped_rank_is_named_whatever_it_is_there_for(activity):
    lease = {"activity": activity, "lease_seconds": 1800.0}
    found = detect(stopped(0, **lease), *(rank_state(r, **lease) for r in (1, 2, 3)))
    assert (found.cause, found.ranks) == ("rank_frozen", (0,))
    assert f"during {activity}" in found.summary
    assert "nobody waits for it yet" in found.summary


def test_all_ranks_stopped_are_all_named():
    assert detect(*map(stopped, range(4))).ranks == (0, 1, 2, 3)


def test_stall_is_quiet_while_a_debugger_takes_a_look():
    assert detect(stopped(2, 0.2), *map(rank_state, (0, 1, 3))) is None


def test_stall_is_quiet_when_a_rank_is_stopped_after_it_was_done():
    assert detect(stopped(2, activity="done"), *map(rank_state, (0, 1, 3))) is None


def test_rank_in_uninterruptible_sleep_past_its_lease_is_named():
    found = detect(waiting(1, 5.0, process_state="D", blocked_seconds=4.0, in_flight=None), *others(1))
    assert (found.cause, found.ranks) == ("rank_frozen", (1,))
    assert "state D" in found.summary
    assert "kill -CONT" not in found.detail


def test_stall_is_quiet_while_a_rank_sleeps_uninterruptibly_within_its_lease():
    """Every read from a busy file system looks so for a moment."""
    assert detect(rank_state(1, process_state="D", blocked_seconds=9.0), *map(rank_state, (0, 2, 3))) is None


def test_rank_that_is_seen_asleep_once_is_not_the_frozen_one():
    """All are past their leases because of rank 2; rank 1 reads from a busy file system."""
    reads = waiting(1, process_state="D", blocked_seconds=0.1)
    found = detect(reads, waiting(0), waiting(2, in_flight=None), waiting(3))
    assert (found.cause, found.ranks) == ("compute_hang", (2,))


def test_dead_rank_is_named_before_a_stopped_one():
    assert detect(killed(1), stopped(2), waiting(0), waiting(3)).ranks == (1,)


def test_rank_that_aborts_once_all_are_through_is_no_page():
    """A thread of gloo's that outlives the interpreter aborts the process now and then, the exit code is not 0."""
    said = finished(1).last_words
    ends = [finished(rank) for rank in (0, 2, 3)]
    found = detect(finished(1, exit_status="signal SIGABRT", last_words=said), *ends)
    assert (found.cause, found.severity, found.ranks) == ("rank_exited", "warning", (1,))
    assert "the training was through" in found.summary
    assert detect(finished(1, exit_status="signal SIGABRT"), *map(waiting, (0, 2, 3))).severity == "critical"


# -- nothing moves -----------------------------------------------------------------------------------------


def test_job_in_which_nothing_moves_is_unknown_with_the_evidence():
    nowhere = {"in_flight": None, "phase": "backward"}
    found = detect(waiting(0, 6.0, **nowhere), *(waiting(rank, 5.0, **nowhere) for rank in (1, 2, 3)))
    assert (found.cause, found.ranks, found.severity) == ("unknown", (), "critical")
    assert found.confidence < 0.5
    assert "6.0 s" in found.summary
    assert "lease 1.5 s" in found.summary
    assert "rank 3 (backward)" in found.summary
    assert found.onset == NOW - 6.0


def test_job_in_which_all_wait_for_each_other_says_so():
    assert "every rank is inside a collective" in detect(*map(waiting, range(4))).summary


def test_rank_with_the_oddest_steps_does_not_hold_up_the_verdict():
    """Its own lease is not over yet; but all take the same steps."""
    odd = waiting(3, 5.0, lease_seconds=9.0, overdue_seconds=0.0)
    assert detect(*map(waiting, (0, 1, 2)), odd).cause == "unknown"


def test_stall_is_quiet_within_the_lease_of_most_ranks():
    odd = [waiting(rank, 5.0, lease_seconds=9.0, overdue_seconds=0.0) for rank in (1, 2, 3)]
    assert detect(waiting(0), *odd) is None


def test_stall_is_quiet_within_the_lease():
    assert detect(*(waiting(rank, 1.4) for rank in range(4))) is None


def test_stall_is_quiet_during_evaluation():
    lease = {"activity": "eval", "lease_seconds": 1800.0, "overdue_seconds": 0.0}
    assert detect(*(rank_state(r, **lease, step_seconds=600.0, activity_seconds=600.0) for r in range(4))) is None


@pytest.mark.parametrize("activity", ["eval", "checkpoint"])
def test_stall_is_quiet_while_rank_0_evaluates_and_the_others_wait(activity):
    busy = rank_state(0, activity=activity, lease_seconds=900.0, step_seconds=20.0, overdue_seconds=0.0)
    assert detect(busy, *(waiting(rank, 20.0, op="barrier") for rank in (1, 2, 3))) is None


def test_stall_is_quiet_during_a_first_step_fifty_times_longer():
    first = {"step": 1, "lease_seconds": 1800.0, "overdue_seconds": 0.0}
    assert detect(*(waiting(rank, 60.0, **first) for rank in range(4))) is None


def test_stall_is_quiet_while_one_rank_still_moves():
    assert detect(*map(waiting, (0, 1, 2)), rank_state(3)) is None


def test_overrun_evaluation_is_found():
    lease = {"activity": "eval", "lease_seconds": 1800.0}
    assert detect(*(waiting(r, 1805.0, overdue_seconds=5.0, **lease) for r in range(4))).cause == "unknown"


def test_ranks_that_wait_for_one_that_has_left_are_found():
    assert detect(finished(3, 60.0), *others(3)).cause == "unknown"


def test_stall_is_quiet_about_ranks_that_are_done_and_still_there():
    done = {"activity": "done", "lease_seconds": None, "overdue_seconds": 0.0}
    assert detect(*(rank_state(r, **done, step_seconds=100.0) for r in range(4))) is None


# -- what must not matter ----------------------------------------------------------------------------------

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
def test_permuting_the_ranks_permutes_the_verdict(scene):
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
def test_clocks_of_the_hosts_change_nothing(scene, shifts):
    """Four hosts of one rank each, each with a clock of its own."""

    def at(state, shift):
        said = state.last_words and replace(state.last_words, time=state.last_words.time + shift)
        return replace(state, host=f"node-{state.rank}", start=state.start + shift, last_words=said)

    true = detect(*(at(state, 0.0) for state in SCENES[scene]))
    seen = detect(*(at(state, shift) for state, shift in zip(SCENES[scene], shifts, strict=True)))
    assert (seen and (seen.cause, seen.ranks, seen.severity)) == (true and (true.cause, true.ranks, true.severity))


def later(state, seconds=5.0, steps=0):
    """The same rank a pass later."""
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
def test_finding_keeps_its_id_while_the_others_get_to_the_end_of_their_step(scene):
    """They are a step ahead where no collective follows, or go on where the job tolerates a loss."""
    ranks = [replace(s, alive=True, gone_seconds=None, last_words=None) if s.last_words else s for s in SCENES[scene]]
    first = detect(*ranks)
    moved = [later(s, steps=0 if s.rank in first.ranks else 1) for s in ranks]
    assert detect(*moved, time=NOW + 5).id == first.id


def test_another_fault_has_another_id():
    ids = {detect(*SCENES[scene]).id for scene in ("killed", "raised", "silent")}
    again = detect(*(replace(s, run_uid=f"again-{s.rank}") for s in SCENES["killed"]))
    another_job = detect(*(replace(s, job_id="other") for s in SCENES["killed"]))
    assert len(ids | {again.id, another_job.id}) == 5


def test_lost_gpu_hours_are_unknown_without_gpus():
    assert detect(*SCENES["stopped"]).lost_gpu_hours is None
    on_gpus = [replace(s, device=f"GPU-{s.rank}") for s in SCENES["stopped"]]
    assert detect(*on_gpus).lost_gpu_hours == pytest.approx(2.0 * 4 / 3600)


def test_words_of_a_rank_are_cut_in_the_table_and_whole_in_the_evidence():
    long = words("exception", "builtins.ValueError", "x" * 1000, NOW - 1)
    found = detect(replace(raised(1, 1.2), last_words=long), *others(1, terminated))
    assert len(found.evidence["ranks"][1]["last_words"]) < 250
    assert len(found.evidence["last_words"].message) == 1000
