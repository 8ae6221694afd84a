"""Tests of ranks on GPUs that NCCL's watchdog aborts because they waited: they are victims, and no owner ended them."""

from functools import partial

import pytest

from tests.build import agent_status, dead, finished, killed, rank_state, terminated, waiting
from tests.detectors.stalls import detect
from zmon.job.ends import hung_ranks
from zmon.schema.rank import EnteredCollective

STOOD = {"step_seconds": 605.0, "state_seconds": 605.0}


def aborted(rank, gone=4.0, **changes):
    """Return a rank that waited for its GPU until the watchdog aborted it without last words."""
    issued = {"exit_status": "signal SIGABRT", "sequences": {"0": 301}, "device": f"GPU-{rank}"}
    return dead(rank, gone, **{**STOOD, **issued, **changes})


def hanging(rank, **changes):
    """Return a rank that is alive and has not issued the collective in which the others waited."""
    return rank_state(rank, **{**STOOD, "overdue_seconds": 603.5, "device": f"GPU-{rank}", **changes})


@pytest.mark.parametrize("status", ["signal SIGABRT", None], ids=["aborted", "unknown"])
def test_ranks_that_nccl_aborts_are_victims_of_the_hanging_rank(status):
    finding = detect(*(aborted(rank, exit_status=status) for rank in (0, 1, 2)), hanging(3))
    assert (finding.cause, finding.ranks) == ("compute_hang", (3,))
    assert "3 of 4 ranks waited for it and are gone" in finding.summary


def test_rank_is_not_named_if_an_aborted_rank_of_its_group_had_come_no_further():
    """Ranks 0 and 1 wait for each other in the group of the two, so that neither proves the other one guilty."""
    stuck = {"sequences": {"pair": 24, "0": 24}}
    last = terminated(1, 1.0, device="GPU-1", **{**STOOD, **stuck})
    ahead = [aborted(rank, sequences={"0": 25}) for rank in (2, 3)]
    assert detect(aborted(0, **stuck), last, *ahead).ranks == ()
    entered = {"sequences": {"pair": 25, "0": 24}}
    assert detect(aborted(0, **entered), last, *ahead).ranks == (1,)


def test_rank_that_hangs_in_its_input_while_nccl_aborts_others_is_named():
    finding = detect(*map(aborted, (0, 1, 2)), hanging(3, phase="data"))
    assert (finding.cause, finding.ranks) == ("input_stall", (3,))


def test_rank_that_is_aborted_inside_a_collective_is_a_victim():
    inside = waiting(0).in_flight
    victims = [aborted(rank, in_flight=inside, sequences={"0": 300}) for rank in (0, 1, 2)]
    assert detect(*victims, hanging(3)).ranks == (3,)


def test_hanging_rank_is_named_after_the_launcher_ended_its_process():
    """torchrun sends SIGTERM as soon as a rank has died, and SIGKILL half a minute later."""
    for how in (terminated, killed):
        last = how(3, 1.0, device="GPU-3", **STOOD)
        finding = detect(*map(aborted, (0, 1, 2)), last)
        assert (finding.cause, finding.ranks) == ("rank_exited", (3,))
        assert "the others had waited for it, and ended first" in finding.summary


def test_hanging_rank_is_named_although_its_last_words_seem_older_than_the_abort():
    """Agents see the abort up to 0.1 s late. The last words of the rank that the launcher ended have the exact time."""
    for late in (0.04, 0.2):
        last = terminated(3, 1.0, device="GPU-3", last_words_seconds=1.0 + late, **STOOD)
        finding = detect(*(aborted(rank, 1.0) for rank in (0, 1, 2)), last)
        assert (finding.cause, finding.ranks) == ("rank_exited", (3,))


def test_aborted_rank_is_no_culprit_although_the_rank_it_waited_for_seems_to_have_ended_first():
    last = terminated(3, 4.0, host="node-b", device="GPU-3", last_words_seconds=4.04, **STOOD)
    ended = [terminated(rank, 4.0, device=f"GPU-{rank}", sequences={"0": 301}, **STOOD) for rank in (1, 2)]
    assert detect(aborted(0, 4.0), *ended, last).ranks == (3,)


def test_rank_that_hung_in_its_input_is_named_although_its_lease_was_longer_than_the_timeout():
    stood = {"lease_seconds": 90.0, "step_seconds": 46.0, "state_seconds": 46.0}
    last = terminated(3, 1.0, device="GPU-3", phase="data", **stood)
    assert detect(*(aborted(rank, 1.0, **stood) for rank in (0, 1, 2)), last).ranks == (3,)


def test_rank_that_read_data_for_a_moment_did_not_hang():
    stood = {"lease_seconds": 90.0, "step_seconds": 46.0}
    last = terminated(3, 1.0, device="GPU-3", phase="data", state_seconds=2.0, **stood)
    ended = [aborted(rank, 1.0, state_seconds=46.0, **stood) for rank in (0, 1, 2)]
    assert hung_ranks([*ended, last]) == []


@pytest.mark.parametrize(
    "others",
    [
        [hanging(rank, sequences={"0": 301}) for rank in (1, 2, 3)],
        [hanging(rank, step_seconds=3.0, overdue_seconds=1.5) for rank in (1, 2, 3)],
        [hanging(rank, device="cpu") for rank in (1, 2)],
    ],
    ids=["no rank behind", "stopped after it", "finished"],
)
def test_rank_that_aborts_by_itself_is_named(others):
    own = aborted(0, step_seconds=4.01, sequences={"0": 300})
    assert detect(own, *others).ranks == (0,)


def test_nobody_is_named_if_nccl_aborts_all_ranks_because_the_network_is_cut():
    """Test that ranks which waited in their first step count as aborted, although their long lease was not over."""
    start = {"activity": "init", "lease_seconds": 120.0, "step": 1, "step_seconds": 46.0, "state_seconds": 46.0}
    ended = [terminated(rank, 1.0, device=f"GPU-{rank}", **start) for rank in (2, 3)]
    finding = detect(*(aborted(rank, 1.0, **start) for rank in (0, 1)), *ended)
    assert (finding.cause, finding.ranks) == ("unknown", ())


@pytest.mark.parametrize("activity", ["init", "train"])
def test_nobody_is_named_if_the_launcher_ends_all_others_after_the_first_abort(activity):
    """mpirun ends the ranks of all hosts within 0.1 s, before their own watchdogs do."""
    issued = {"sequences": {"0": 301}, "lease_seconds": 42.7, "activity": activity}
    stood = {"step_seconds": 47.0, "state_seconds": 46.0, **issued}
    others = [terminated(rank, 1.0, device=f"GPU-{rank}", last_words_seconds=1.05, **stood) for rank in (0, 1, 3)]
    finding = detect(aborted(2, 1.0, **stood), *others)
    assert (finding.cause, finding.ranks) == ("unknown", ())


def issued(sequence, *ops, num_bytes=64):
    """Return what a rank has issued last, the latest first."""
    entered = tuple(EnteredCollective(op, "0", sequence - back, num_bytes) for back, op in enumerate(ops))
    return {"entered": entered, "sequences": {"0": sequence}}


@pytest.mark.parametrize("how", ["all", "one"])
def test_rank_that_issued_another_collective_is_named_after_the_watchdog_has_aborted_ranks_that_waited(how):
    """Rank 3 has come further, because it has skipped a collective of the others."""
    usual, skipped = issued(301, "all_reduce", "all_to_all"), issued(302, "all_reduce", "all_to_all")
    end = aborted if how == "all" else partial(terminated, **STOOD)
    others = [end(rank, 4.0, device=f"GPU-{rank}", **usual) for rank in (1, 2)]
    finding = detect(aborted(0, **usual), *others, terminated(3, 4.0, device="GPU-3", **STOOD, **skipped))
    assert (finding.cause, finding.ranks, finding.severity) == ("collective_mismatch", (3,), "critical")


@pytest.mark.parametrize(("op", "named"), [("all_reduce", (3,)), ("all_to_all", ())])
def test_rank_with_another_size_is_named_after_the_watchdog_only_if_the_sizes_must_be_equal(op, named):
    others = [aborted(rank, **issued(301, op)) for rank in (0, 1, 2)]
    finding = detect(*others, aborted(3, **issued(301, op, num_bytes=128)))
    assert (finding.ranks, finding.cause) == (named, "collective_mismatch" if named else "unknown")


def test_rank_that_hangs_has_issued_the_same_collectives_as_far_as_it_came():
    others = [aborted(rank, **issued(301, "all_reduce", "all_to_all")) for rank in (0, 1, 2)]
    finding = detect(*others, hanging(3, **issued(300, "all_to_all", "all_reduce")))
    assert (finding.cause, finding.ranks) == ("compute_hang", (3,))


@pytest.mark.parametrize(
    "moved",
    [{"state_seconds": 12.0}, {"step_seconds": 12.0}],
    ids=["another rank moved", "another rank finished a step"],
)
def test_rank_that_aborts_alone_is_named_unless_all_ranks_had_waited_as_long(moved):
    stood = {"lease_seconds": 90.0, "step_seconds": 46.0, "state_seconds": 46.0, "sequences": {"0": 301}}
    others = [terminated(rank, 1.0, device=f"GPU-{rank}", **stood) for rank in (1, 2)]
    other = terminated(3, 1.0, device="GPU-3", **{**stood, **moved})
    assert detect(aborted(0, 1.0, **stood), *others, other).ranks == (0,)


@pytest.mark.parametrize(("further", "named"), [((1, 2, 3), (0,)), ((3,), ())], ids=["all others", "one rank"])
def test_rank_that_nccl_aborts_is_named_only_if_it_alone_was_behind(further, named):
    """If several ranks are behind, one of them may have skipped a collective, and the others wait for it."""
    stood = {"lease_seconds": 90.0, "step_seconds": 46.0, "state_seconds": 46.0}
    counts = {rank: {"sequences": {"0": 302 if rank in further else 301}} for rank in range(4)}
    others = [terminated(rank, 1.0, device=f"GPU-{rank}", **stood, **counts[rank]) for rank in (1, 2, 3)]
    assert detect(aborted(0, 1.0, **stood, **counts[0]), *others).ranks == named


def test_rank_that_nccl_aborts_is_not_named_for_being_behind_the_only_other_rank():
    """The other rank may be ahead because it left out a collective, as after an exception that the job swallowed."""
    stood = {"lease_seconds": 90.0, "step_seconds": 46.0, "state_seconds": 46.0, "world_size": 2}
    ahead = terminated(1, 1.0, device="GPU-1", sequences={"0": 304}, **stood)
    finding = detect(aborted(0, 1.0, sequences={"0": 302}, **stood), ahead)
    assert (finding.ranks if finding else ()) == ()


@pytest.mark.parametrize(("silent", "named"), [(50.0, (3,)), (0.5, ())])
def test_last_watched_rank_that_nccl_aborts_is_a_victim_of_the_host_that_is_lost(silent, named):
    """Nothing is known of the only other rank. Its agent may answer again in a moment."""
    away = waiting(3, host="node-b", in_flight=None, world_size=2)
    agents = [agent_status("node-a"), agent_status("node-b", silent)]
    finding = detect(aborted(0, world_size=2), unwatched=[away], agents=agents)
    assert (finding.ranks if finding else ()) == named
    assert detect(aborted(0, world_size=1)).ranks == (0,)  # it waited for nobody


def test_ranks_that_abort_in_the_middle_of_their_work_are_named():
    working = {"step_seconds": 1.5, "state_seconds": 1.2}
    assert detect(*(aborted(rank, 1.0, **working) for rank in range(4))).ranks == (0, 1, 2, 3)


def test_ranks_that_nccl_aborts_are_victims_of_the_rank_that_left():
    left = finished(3, 604.0, device="GPU-3", sequences={"0": 300}, step_seconds=605.0)
    finding = detect(*(aborted(rank) for rank in (0, 1, 2)), left)
    assert (finding.cause, finding.ranks) == ("uneven_end", (3,))


@pytest.mark.parametrize("status", ["signal SIGKILL", "signal SIGSEGV", "exit code 1"])
def test_rank_with_another_exit_status_is_named_although_others_are_behind(status):
    assert detect(aborted(0, exit_status=status), *map(hanging, (1, 2, 3))).ranks == (0,)


def test_rank_that_aborts_on_cpus_is_named_although_others_are_behind():
    """There is no watchdog on CPUs."""
    assert detect(aborted(0, device="cpu"), *(hanging(rank, device="cpu") for rank in (1, 2, 3))).ranks == (0,)


def test_no_hung_rank_is_named_after_a_hung_job_was_cancelled():
    """The rank that hangs in Python ends at once, the others when the launcher kills them, without an exit status."""
    ranks = [
        terminated(3, 31.0, device="GPU-3", **STOOD),
        *(aborted(rank, 1.0, exit_status=None) for rank in (0, 1, 2)),
    ]
    assert hung_ranks(ranks) == []
