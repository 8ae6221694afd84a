"""Tests of the diagnosis of a job in which nothing moves and all ranks live: culprits, and cases without one."""

from dataclasses import replace

import pytest

from tests.build import finished, waiting
from tests.detectors.stalls import detect, inside, outside

# -- a rank in no collective -------------------------------------------------------------------------------


def test_awaited_rank_that_waits_for_data_is_an_input_stall():
    finding = detect(waiting(0), waiting(1), outside(2, "data"), waiting(3))
    assert (finding.cause, finding.ranks, finding.severity) == ("input_stall", (2,), "warning")
    assert "3 of 4 ranks wait" in finding.summary


@pytest.mark.parametrize("phase", ["forward", "backward", "optimizer", "other"])
def test_rank_outside_the_collective_of_the_others_is_a_compute_hang(phase):
    finding = detect(outside(0, phase), waiting(1), waiting(2), waiting(3))
    assert (finding.cause, finding.ranks) == ("compute_hang", (0,))
    assert f"has been in no collective for 5.0 s (phase {phase})" in finding.summary


def test_rank_that_entered_fewer_collectives_is_the_culprit():
    """Rank 3 computes after the collective that the others are in."""
    ahead = outside(3, sequences={"0": 301})
    assert detect(waiting(0), outside(1), waiting(2), ahead).ranks == (1,)


def test_rank_that_a_subgroup_waits_for_is_the_culprit():
    """Ranks 0 and 1 are in a group of two; 2 and 3 wait in the job's own group for both."""
    waits = inside(0, group="tp", sequence=41, sequences={"0": 300, "tp": 41})
    finding = detect(waits, outside(1, sequences={"0": 300, "tp": 40}), inside(2), inside(3))
    assert (finding.cause, finding.ranks) == ("compute_hang", (1,))


def test_whole_job_that_waits_for_data_is_an_input_stall_of_all():
    finding = detect(*(outside(rank, "data") for rank in range(4)))
    assert (finding.cause, finding.ranks) == ("input_stall", (0, 1, 2, 3))
    assert "rank 3 on node-a have waited for their data loader for 5.0 s; no rank is in a collective" in finding.summary


def test_no_rank_is_named_if_some_ranks_read_and_some_compute():
    assert detect(waiting(0), outside(1, "data"), outside(2), waiting(3)).cause == "unknown"


def test_no_rank_is_named_if_zmon_sees_no_collective_in_flight():
    """The ranks may wait in C++."""
    assert detect(*(outside(rank, "backward") for rank in range(4))).cause == "unknown"


def test_no_rank_is_named_on_gpus_without_flight_records():
    ranks = (waiting(0), waiting(1), outside(2), waiting(3))
    assert detect(*(replace(r, device=f"GPU-{r.rank}") for r in ranks)).cause == "unknown"


def test_no_rank_is_named_while_a_rank_is_unwatched():
    """The missing rank may be the culprit."""
    finding = detect(waiting(0), waiting(1), outside(2))
    assert (finding.cause, finding.ranks) == ("unknown", ())


@pytest.mark.parametrize(("seconds", "cause"), [(60.0, "input_stall"), (0.4, "compute_hang")])
def test_rank_that_loads_its_next_batch_after_a_hang_had_not_waited_for_its_loader(seconds, cause):
    culprit = outside(2, "data", step_seconds=66.0, state_seconds=seconds)
    assert detect(culprit, *(waiting(rank, 66.0) for rank in (0, 1, 3))).cause == cause


def test_finished_rank_that_others_wait_for_is_the_culprit():
    finding = detect(finished(3, 60.0), *map(waiting, (0, 1, 2)))
    assert (finding.cause, finding.ranks, finding.severity) == ("uneven_end", (3,), "critical")
    assert "rank 3 on node-a left cleanly after 100 steps while the others went on" in finding.summary


@pytest.mark.parametrize(("gone", "severity"), [(5.0, "warning"), (60.0, "critical")])
@pytest.mark.parametrize(
    "ending", [{}, {"alive": True, "exit_status": None}], ids=["gone", "its process has not ended"]
)
def test_rank_that_left_is_a_warning_until_the_launcher_should_have_started_the_job_again(gone, severity, ending):
    """The others fail as soon as they notice that its connections are closed, which takes seconds on a busy machine."""
    restarts = {"max_restarts": 2, "restart_count": 0}
    leaver = finished(3, gone, **restarts, **ending, activity_seconds=gone)
    finding = detect(leaver, *(waiting(rank, 9.0, **restarts) for rank in (0, 1, 2)))
    assert (finding.cause, finding.ranks, finding.severity) == ("uneven_end", (3,), severity)


def test_finished_rank_that_others_wait_for_on_gpus_is_the_culprit():
    """A rank issues a collective and goes on, so no rank is inside of one."""
    ranks = [outside(rank, sequences={"0": 302}, device=f"GPU-{rank}") for rank in (0, 1, 2)]
    finding = detect(finished(3, 60.0, sequences={"0": 300}, device="GPU-3"), *ranks)
    assert (finding.cause, finding.ranks) == ("uneven_end", (3,))
    assert "3 of them wait in a collective" in finding.summary


def test_finished_rank_on_a_gpu_is_no_culprit_if_it_issued_as_many_collectives_as_the_others():
    ranks = [outside(rank, sequences={"0": 300}, device=f"GPU-{rank}") for rank in (0, 1, 2)]
    assert detect(finished(3, 60.0, sequences={"0": 300}, device="GPU-3"), *ranks).ranks != (3,)


def test_rank_that_goes_on_after_the_others_have_finished_is_the_culprit():
    """It has a batch more than the others."""
    assert detect(*map(finished, (0, 1, 2)), waiting(3)).ranks == (3,)


def test_finished_rank_is_mentioned_if_it_entered_the_collective_in_which_the_others_wait():
    finding = detect(finished(3, 60.0, sequences={"0": 301}), *map(waiting, (0, 1, 2)))
    assert finding.cause == "unknown"
    assert "rank 3 on node-a has finished" in finding.summary


def test_finished_rank_is_no_culprit_if_it_is_not_in_the_group_in_which_the_others_wait():
    finding = detect(finished(3, 60.0, sequences={}), *map(waiting, (0, 1, 2)))
    assert finding.cause == "unknown"


def test_two_ranks_that_hang_at_once_are_both_named():
    finding = detect(outside(0), waiting(1), waiting(2), outside(3, "optimizer"))
    assert (finding.cause, finding.ranks) == ("compute_hang", (0, 3))


def test_rank_of_a_pipeline_that_its_neighbours_wait_for_is_the_culprit():
    """Send and recv have no common count, so the only rank that is in neither is the culprit."""
    finding = detect(inside(0, "send", 0), outside(1), inside(2, "recv", 0), inside(3, "recv", 0))
    assert (finding.cause, finding.ranks) == ("compute_hang", (1,))


def test_no_rank_is_named_in_a_pipeline_if_two_ranks_are_in_no_operation():
    finding = detect(inside(0, "send", 0), outside(1), outside(2), inside(3, "recv", 0))
    assert (finding.cause, finding.ranks) == ("unknown", ())


def test_no_rank_is_named_if_all_ranks_of_a_pipeline_send_or_receive():
    assert detect(inside(0, "send", 0), inside(1, "recv", 0), inside(2, "send", 0), inside(3, "recv", 0)).ranks == ()


def test_rank_that_has_issued_the_pending_collective_is_not_the_culprit():
    """Rank 3 issued the collective asynchronously and computes, so the others do not wait for rank 3."""
    ahead = outside(3, sequences={"0": 301})
    assert detect(waiting(0), waiting(1), waiting(2), ahead).ranks == ()


def test_rank_outside_the_waiting_group_is_not_the_culprit():
    pair = [inside(rank, group="tp", sequence=41, sequences={"0": 300, "tp": 41}) for rank in (0, 1)]
    assert detect(*pair, outside(2), outside(3)).ranks == ()


def test_last_rank_of_a_chain_of_groups_is_the_culprit():
    """Ranks 2 and 3 wait in the job's own group for 0 and 1; 0 waits in its pair for 1; 1 reads."""
    waits = inside(0, group="tp", sequence=41, sequences={"0": 300, "tp": 41})
    finding = detect(waits, outside(1, "data", sequences={"0": 300, "tp": 40}), inside(2), inside(3))
    assert (finding.cause, finding.ranks) == ("input_stall", (1,))


def test_concurrent_collectives_of_different_kinds_are_no_mismatch():
    """Each rank issued 300 and 301; some have completed 300, as after a network stall."""
    assert detect(inside(0, "all_reduce", 300), inside(1, "all_to_all", 301), inside(2), inside(3)).ranks != (0,)
    mixed = [inside(0, "all_reduce", 300), *(inside(rank, "all_to_all", 301) for rank in (1, 2, 3))]
    assert (detect(*mixed).cause, detect(*mixed).ranks) == ("unknown", ())


def test_root_of_a_reduce_is_no_mismatch():
    """Only the root receives a result, so its size differs."""
    finding = detect(inside(0, "reduce", num_bytes=8192), *(inside(rank, "reduce") for rank in (1, 2, 3)))
    assert (finding.cause, finding.ranks) == ("unknown", ())


def test_different_sizes_of_all_gather_are_no_mismatch_on_gpus():
    ranks = [inside(rank, "all_gather", num_bytes=100 + rank, device=f"GPU-{rank}") for rank in range(4)]
    assert detect(*ranks).cause == "unknown"


def test_rank_missing_at_a_barrier_is_the_culprit():
    finding = detect(*(inside(rank, "barrier", num_bytes=0) for rank in (0, 1, 3)), outside(2))
    assert (finding.cause, finding.ranks) == ("compute_hang", (2,))


def test_rank_that_hangs_in_a_loader_without_workers_is_an_input_stall():
    """A loader without workers reads in the rank's own process, in the same phase."""
    assert detect(waiting(0), outside(1, "data"), waiting(2), waiting(3)).cause == "input_stall"


def test_stall_reports_nothing_while_ranks_compile_their_first_step():
    compiles = {"phase": "forward", "step": 1, "steps": 0, "lease_seconds": 1800.0, "overdue_seconds": 0.0}
    compiles["sequences"] = {"0": 3}  # those of its start
    assert detect(*(outside(rank, **compiles) for rank in range(4))) is None
    assert detect(outside(0, **compiles), *(waiting(rank, 60.0) for rank in (1, 2, 3))) is None


def test_stall_reports_nothing_while_rank_0_alone_evaluates():
    away = outside(0, activity="eval", lease_seconds=1800.0, overdue_seconds=0.0)
    assert detect(away, *(inside(rank, "barrier") for rank in (1, 2, 3))) is None


# -- disagreement ------------------------------------------------------------------------------------------


def test_rank_in_another_collective_at_the_same_position_is_the_mismatch():
    finding = detect(inside(0), inside(1), inside(2, op="all_to_all"), inside(3))
    assert (finding.cause, finding.ranks) == ("collective_mismatch", (2,))
    assert "all_to_all: rank 2" in finding.summary
    assert "all_reduce of 4096 bytes: ranks 0, 1, 3" in finding.summary
    assert (finding.evidence.group, finding.evidence.sequence) == ("0", 301)


def test_rank_with_tensors_of_another_size_is_the_mismatch():
    assert detect(inside(0), inside(1, num_bytes=8), inside(2), inside(3)).ranks == (1,)


@pytest.mark.parametrize("op", ["all_to_all", "broadcast", "gather", "scatter", "send"])
def test_sizes_that_may_differ_are_no_mismatch(op):
    assert detect(*(inside(rank, op=op, num_bytes=rank) for rank in range(4))).cause == "unknown"


def test_ranks_at_different_positions_are_no_mismatch():
    """One rank is an operation ahead, as happens at the end of a collective."""
    assert detect(inside(0, "barrier", 302), inside(1), inside(2), inside(3)).cause == "unknown"


def test_mismatch_of_two_against_two_ranks_has_no_culprit():
    finding = detect(inside(0), inside(1), inside(2, op="barrier"), inside(3, op="barrier"))
    assert (finding.cause, finding.ranks) == ("unknown", ())
    assert "ranks 0, 1" in finding.summary
    assert "ranks 2, 3" in finding.summary


# -- leases ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("activity", ["init", "eval", "checkpoint"])
def test_rank_whose_activity_outlasts_its_lease_is_named(activity):
    away = outside(1, activity=activity, activity_seconds=905.0, lease_seconds=900.0, overdue_seconds=5.0)
    finding = detect(waiting(0, 905.0), away, waiting(2, 905.0), waiting(3, 905.0))
    assert (finding.cause, finding.ranks) == ("lease_overrun", (1,))
    assert f"rank 1 on node-a has been in {activity} for 905.0 s (lease 900 s), and the others wait" in finding.summary


def test_no_rank_is_named_if_all_wait_in_init_for_missing_ranks():
    init = {"activity": "init", "activity_seconds": 1805.0, "lease_seconds": 1800.0, "step": 0}
    finding = detect(*(outside(rank, **init) for rank in (0, 1, 2)))
    assert (finding.cause, finding.ranks, finding.hosts) == ("lease_overrun", (), ())
    assert "rank 3 never started; all others have been in init for 1805.0 s (lease 1800 s)" in finding.summary
    assert finding.confidence < 0.8


def test_rank_that_saves_for_too_long_is_named_although_another_is_missing():
    saves = outside(1, activity="checkpoint", activity_seconds=905.0, lease_seconds=900.0)
    finding = detect(waiting(0, 905.0), saves, waiting(2, 905.0))
    assert (finding.cause, finding.ranks) == ("lease_overrun", (1,))


# -- ranks without steps -----------------------------------------------------------------------------------


def worker(rank, **changes):
    """Return a worker of a parameter server: it has no optimizer, so it has the lease of a start for ever."""
    start = {"steps": 0, "lease_seconds": 1800.0, "overdue_seconds": 0.0, "step_seconds": 900.0}
    return inside(rank, "broadcast", 301, **{**start, **changes})


def test_parameter_server_that_hangs_is_named_although_its_workers_finish_no_steps():
    finding = detect(outside(0, sequences={"0": 300}), *map(worker, (1, 2, 3)))
    assert (finding.cause, finding.ranks) == ("compute_hang", (0,))


def test_worker_of_a_parameter_server_that_hangs_is_named():
    hung = replace(worker(2), in_flight=None, sequences={"0": 300})
    finding = detect(inside(0, "broadcast", 301), worker(1), hung, worker(3))
    assert (finding.cause, finding.ranks) == ("compute_hang", (2,))


def test_rank_that_still_starts_keeps_its_lease_while_the_others_wait_for_it():
    """It has taken part in no collective but those of its start."""
    starting = replace(worker(2), in_flight=None, sequences={"0": 3}, state_seconds=60.0)
    assert detect(*(inside(rank, seconds=60.0) for rank in (0, 1, 3)), starting) is None
