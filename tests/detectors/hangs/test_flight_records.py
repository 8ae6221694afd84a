"""Tests of the diagnosis from flight records: culprits, and cases in which the records show none.

On GPUs a rank goes on after it issues a collective, so the position of its code does not show where it hangs. The
records are like those of NCCL: `scheduled`, `started` only with timing on, never retired while pending; groups by
backend and name.
"""

from dataclasses import replace

import pytest

from tests.build import agent_status, disconnected, finished, flight, job_steps, pending, rank_state, snapshot, waiting
from tests.detectors.hangs.test_diagnosis_network import host
from zmon.detectors.stall import Stall

WAITS = flight(pending(301))


def gpu(rank, **changes):
    """Return a rank that issued a collective, went on, and stopped somewhere in Python."""
    return waiting(rank, **{"in_flight": None, "phase": "backward", "device": f"GPU-{rank}", **changes})


def detect(ranks, *flights, **changes):
    """Return the finding; `flights` is by rank, None if the record is missing."""
    records = {rank: flight for rank, flight in enumerate(flights) if flight is not None}
    return next(iter(Stall().detect(snapshot(*ranks, flights=records, **changes))), None)


@pytest.mark.parametrize(("phase", "cause"), [("data", "input_stall"), ("forward", "compute_hang")])
def test_rank_that_has_not_issued_a_pending_collective_is_the_culprit(phase, cause):
    ranks = [gpu(0), gpu(1), gpu(2, phase=phase), gpu(3)]
    finding = detect(ranks, WAITS, WAITS, flight(), WAITS)
    assert (finding.cause, finding.ranks, finding.severity) == (cause, (2,), "warning")
    assert "the flight records show that it has not issued" in finding.summary


def test_no_rank_is_named_while_the_record_of_any_rank_is_missing():
    """The rank may be the culprit: rank 2 may wait for rank 3 in a group of which nothing else is known."""
    finding = detect([gpu(rank) for rank in range(4)], WAITS, WAITS, flight(), None)
    assert (finding.cause, finding.ranks) == ("unknown", ())


def test_no_rank_is_named_before_the_records_arrive():
    assert detect([gpu(rank) for rank in range(4)]).cause == "unknown"


def test_rank_is_not_named_while_another_rank_is_unwatched():
    assert detect([gpu(0), gpu(1), gpu(2)], WAITS, WAITS, flight(), WAITS).cause == "unknown"
    silent = [agent_status("node-a"), agent_status("node-b", 5.0)]
    away = [gpu(3, host="node-b")]
    finding = detect([gpu(0), gpu(1), gpu(2)], WAITS, WAITS, flight(), WAITS, unwatched=away, agents=silent)
    assert 2 not in finding.ranks


def test_last_rank_of_a_chain_of_groups_is_named():
    """Data-parallel over tensor-parallel: 0 and 1 are one pair, 2 and 3 the other; all four share group 0."""
    pair = flight(pending(41, group="nccl:1"), **{"0": 300, "1": 40})
    hangs = flight(**{"0": 300, "1": 40})
    others = flight(pending(301), **{"0": 300, "2": 40})
    finding = detect([gpu(rank) for rank in range(4)], pair, hangs, others, others)
    assert (finding.cause, finding.ranks) == ("compute_hang", (1,))


def test_deadlock_of_two_groups_has_no_culprit():
    """Each rank waits in the group that the other has not entered yet."""
    flight_of_both = flight(pending(41, group="nccl:1"), **{"0": 300, "1": 40})
    other = flight(pending(301), **{"0": 300, "1": 40})
    finding = detect([gpu(0, world_size=2), gpu(1, world_size=2)], flight_of_both, other)
    assert (finding.cause, finding.ranks) == ("unknown", ())
    assert "the others wait for rank 0 on node-a, rank 1 on node-a, which wait themselves" in finding.summary


def test_two_ranks_that_hang_at_once_are_both_named_with_less_confidence():
    finding = detect([gpu(rank) for rank in range(4)], flight(), WAITS, WAITS, flight())
    assert (finding.cause, finding.ranks) == ("compute_hang", (0, 3))
    assert finding.confidence < 0.8


def test_rank_that_waits_in_send_or_recv_is_not_the_end_of_the_chain():
    """A pipeline: rank 0 has issued its recv, of which only the pending state is known."""
    receives = flight(pending(7, "nccl:recv 0<-1"))
    finding = detect([gpu(0), gpu(1), gpu(2), gpu(3)], receives, flight(), WAITS, WAITS)
    assert finding.ranks == (1,)


def test_rank_that_waits_in_recv_by_its_box_is_not_named():
    """There are no records of gloo's send and recv."""
    receives = waiting(2, op="recv")
    assert detect([gpu(0), gpu(1), receives, gpu(3)], WAITS, WAITS, flight(), WAITS).ranks == ()


def test_rank_that_issued_further_collectives_is_not_named():
    ahead = flight(pending(301), pending(302), pending(303))
    finding = detect([gpu(rank) for rank in range(4)], ahead, WAITS, WAITS, flight())
    assert finding.ranks == (3,)


def test_rank_without_a_record_of_a_group_is_not_behind_in_that_group():
    """Rank 3 is not in group 1, or its record no longer has that group."""
    pair = flight(pending(301, group="nccl:1"), **{"0": 300, "1": 300})
    alone = flight(**{"0": 300})
    assert detect([gpu(rank) for rank in range(4)], pair, pair, pair, alone).ranks == ()


def test_rank_whose_gpu_is_behind_is_the_culprit_with_timing_on():
    started = flight(pending(301, state="started"))
    finding = detect([gpu(rank) for rank in range(4)], started, started, WAITS, started)
    assert (finding.cause, finding.ranks) == ("compute_hang", (2,))
    assert "its GPU has not reached" in finding.summary


def test_no_rank_is_named_if_all_have_the_same_pending():
    finding = detect([gpu(rank) for rank in range(4)], WAITS, WAITS, WAITS, WAITS)
    assert (finding.cause, finding.ranks) == ("unknown", ())


def test_link_down_is_the_network_stall_if_all_have_the_same_pending():
    windows = [host("node-a"), host("node-b", link=False)]
    finding = detect([gpu(rank) for rank in range(4)], WAITS, WAITS, WAITS, WAITS, hardware=windows)
    assert (finding.cause, finding.hosts) == ("network_stall", ("node-b",))


def test_link_down_is_the_network_stall_in_the_first_step_after_its_lease_too():
    windows = [host("node-a"), host("node-b", link=False)]
    starting = [gpu(rank, activity="init", activity_seconds=1801.5) for rank in range(4)]
    finding = detect(starting, WAITS, WAITS, WAITS, WAITS, hardware=windows)
    assert (finding.cause, finding.ranks, finding.hosts) == ("network_stall", (), ("node-b",))


def test_link_that_is_down_is_no_network_stall_while_a_rank_has_not_issued():
    windows = [host("node-a"), host("node-b", link=False)]
    finding = detect([gpu(rank) for rank in range(4)], WAITS, WAITS, flight(), WAITS, hardware=windows)
    assert (finding.cause, finding.ranks) == ("compute_hang", (2,))


@pytest.mark.parametrize("other", [pending(301, "nccl:all_to_all"), pending(301, num_bytes=8)])
def test_rank_with_another_collective_or_size_pending_is_the_mismatch(other):
    finding = detect([gpu(rank) for rank in range(4)], WAITS, flight(other), WAITS, WAITS)
    assert (finding.cause, finding.ranks) == ("collective_mismatch", (1,))
    assert "collective 301 of group nccl:0" in finding.summary


@pytest.mark.parametrize("name", ["nccl:all_gather", "nccl:all_to_all", "nccl:broadcast", "nccl:reduce"])
def test_sizes_that_may_differ_are_no_mismatch(name):
    flights = (flight(pending(301, name, num_bytes=rank)) for rank in range(4))
    assert detect([gpu(rank) for rank in range(4)], *flights).cause == "unknown"


def test_rank_with_another_size_of_an_all_to_all_is_named_if_the_sizes_had_been_equal():
    flights = (flight(pending(301, "nccl:all_to_all", num_bytes=8 if rank == 2 else 4)) for rank in range(4))
    ranks = [gpu(rank) for rank in range(4)]
    job = snapshot(*ranks, flights=dict(enumerate(flights)))
    finding, *_ = Stall().detect(replace(job, steps=job_steps(16)))
    assert (finding.cause, finding.ranks) == ("collective_mismatch", (2,))


def test_mismatch_of_two_against_two_ranks_has_no_culprit():
    other = flight(pending(301, "nccl:_all_gather_base"))
    finding = detect([gpu(rank) for rank in range(4)], WAITS, WAITS, other, other)
    assert (finding.cause, finding.ranks) == ("unknown", ())
    assert "ranks 2, 3" in finding.summary


def test_cpu_rank_without_a_collective_in_its_box_is_named_by_its_record():
    """A compiled graph over gloo: the box has no collective, the record has all. gloo retires the completed ones."""
    waits = replace(WAITS, pending=(pending(301, "gloo:all_reduce", "gloo:0"),), last={"gloo:0": 300})
    hangs = replace(flight(), last={"gloo:0": 300})
    ranks = [gpu(rank, device="cpu") for rank in range(4)]
    assert detect(ranks).cause == "unknown"
    assert detect(ranks, waits, waits, hangs, waits).ranks == (2,)


def test_cpu_rank_that_waits_by_its_record_is_not_named():
    behind = waiting(2, in_flight=None, phase="backward")
    ranks = [waiting(0), waiting(1), behind, waiting(3)]
    assert detect(ranks).ranks == (2,)
    assert detect(ranks, flights := WAITS, flights, flights, flights).ranks == ()


def test_finished_rank_that_is_alive_is_named_by_its_record():
    """Rank 3 left the loop early, and the others wait in a collective that it never issued."""
    done = rank_state(3, activity="done", lease_seconds=None, device="GPU-3")
    finding = detect([gpu(0), gpu(1), gpu(2), done], WAITS, WAITS, WAITS, flight())
    assert (finding.cause, finding.ranks) == ("compute_hang", (3,))
    assert "has finished" in finding.summary


def test_no_rank_is_named_if_the_record_of_a_dead_rank_is_missing():
    assert detect([gpu(0), gpu(1), gpu(2), finished(3, 60.0)], WAITS, WAITS, flight(), None).ranks == ()
    assert detect([gpu(0), gpu(1), gpu(2), disconnected(3)], WAITS, WAITS, flight(), None).ranks == ()


def test_records_have_no_culprit_while_a_rank_evaluates_within_its_lease():
    evaluates = gpu(0, activity="eval", lease_seconds=1800.0, overdue_seconds=0.0)
    assert detect([evaluates, gpu(1), gpu(2), gpu(3)], flight(), WAITS, WAITS, WAITS) is None


def test_onset_and_step_stay_when_records_refine_the_cause():
    ranks = [gpu(rank) for rank in range(4)]
    before, after = detect(ranks), detect(ranks, WAITS, WAITS, flight(), WAITS)
    assert before.onset == after.onset
    assert (before.step, after.step) == (100, 100)
