"""Tests of ranks that entered the collectives of two groups in another order than the others."""

from dataclasses import replace

import pytest

from tests.detectors.stalls import detect, inside, outside


def in_world(rank, control=40):
    """Return a rank in the all-reduce of the job's group, which has not entered collective 41 of the control group."""
    return inside(rank, "all_reduce", 301, sequences={"0": 301, "control": control})


def in_control(rank, op="all_reduce", world=300):
    """Return a rank in a collective of the control group, which has not entered collective 301 of the job's group."""
    return inside(rank, op, 41, group="control", sequences={"0": world, "control": 41})


@pytest.mark.parametrize("op", ["all_reduce", "barrier"])
def test_rank_that_entered_two_groups_in_another_order_is_the_culprit_at_once(op):
    finding = detect(in_world(0), in_control(1, op), in_world(2), in_world(3))
    assert (finding.cause, finding.ranks, finding.severity) == ("collective_mismatch", (1,), "critical")
    assert f"rank 1 on node-a in {op} 41 of group control" in finding.summary
    assert (finding.evidence.group, finding.evidence.sequence) == ("0", 301)


def test_no_rank_is_named_without_a_majority():
    finding = detect(in_world(0), in_control(1), in_world(2), in_control(3))
    assert (finding.cause, finding.ranks, finding.severity) == ("unknown", (), "critical")
    assert "no majority, so no rank is named" in finding.summary


@pytest.mark.parametrize(
    "odd",
    [in_control(1, world=301), outside(1, sequences={"0": 301, "control": 41}), inside(1, "recv", 0, group="control")],
    ids=["it has entered both", "it is in no collective", "its operation has no position"],
)
def test_no_rank_is_named_if_the_others_do_not_wait_for_it(odd):
    finding = detect(in_world(0), odd, in_world(2), in_world(3))
    assert finding.cause != "collective_mismatch"


def test_no_rank_is_named_if_the_others_are_not_in_its_group():
    alone = inside(1, "all_reduce", 41, group="pair", sequences={"0": 300, "pair": 41})
    others = [inside(rank, "all_reduce", 301, sequences={"0": 301}) for rank in (0, 2, 3)]
    assert detect(*others, alone).cause == "unknown"


def in_stage(rank, stage, count):
    """Return a rank in the all-reduce of the job's group, which has not entered collective 302 of its stage."""
    return inside(rank, "all_reduce", 301, sequences={"0": 301, stage: count})


def ahead_in_stage(rank):
    """Return a rank of the first stage that has skipped collective 301 of the job's group."""
    return inside(rank, "all_gather", 302, group="first", sequences={"0": 300, "first": 302})


def test_ranks_outside_of_a_group_do_not_hide_the_rank_that_is_there_alone():
    """Only the ranks of the first stage know its order; the last stage waits in the job's group."""
    stages = [in_stage(0, "first", 301), in_stage(1, "first", 301), in_stage(3, "last", 900), in_stage(4, "last", 900)]
    finding = detect(*stages, ahead_in_stage(2))
    assert (finding.cause, finding.ranks, finding.severity) == ("collective_mismatch", (2,), "critical")
    assert "neither side has entered the collective of the other" in finding.summary


def test_ranks_outside_of_a_group_do_not_count_as_a_majority():
    stages = [in_stage(0, "first", 301), *(in_stage(rank, "last", 900) for rank in (2, 3, 4))]
    finding = detect(*stages, ahead_in_stage(1))
    assert (finding.cause, finding.ranks, finding.severity) == ("unknown", (), "critical")
    assert "no majority, so no rank is named" in finding.summary


def test_ranks_do_not_wait_for_each_other_if_one_of_the_group_has_entered_both_collectives():
    stages = [in_stage(0, "first", 302), in_stage(1, "first", 301), in_stage(3, "last", 900), in_stage(4, "last", 900)]
    assert detect(*stages, ahead_in_stage(2)).cause == "unknown"


@pytest.mark.parametrize("activity", ["eval", "checkpoint", "init"])
def test_lease_of_an_activity_does_not_delay_ranks_that_can_never_go_on(activity):
    """Rank 1 evaluates with collectives, and the others do not."""
    within_lease = {"activity": activity, "lease_seconds": 1800.0, "overdue_seconds": 0.0}
    finding = detect(in_world(0), replace(in_control(1), **within_lease), in_world(2), in_world(3))
    assert (finding.cause, finding.ranks, finding.severity) == ("collective_mismatch", (1,), "critical")


def test_ranks_in_one_slow_collective_of_an_evaluation_are_quiet():
    within_lease = {"activity": "eval", "lease_seconds": 1800.0, "overdue_seconds": 0.0}
    assert detect(*(replace(in_world(rank), **within_lease) for rank in range(4))) is None


def test_ranks_that_have_just_entered_different_collectives_are_quiet():
    """The agents look at different moments."""
    recent = {"state_seconds": 1.0, "step_seconds": 1.0, "overdue_seconds": 0.0}
    ranks = [in_world(0), in_control(1), in_world(2), in_world(3)]
    assert detect(*(replace(rank, **recent) for rank in ranks)) is None
