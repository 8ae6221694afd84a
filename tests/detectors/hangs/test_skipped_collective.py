"""Tests of a rank that skipped a collective of one group, so that the ranks of two groups wait in a circle."""

import pytest

from tests.detectors.stalls import detect, inside
from zmon.schema.rank import EnteredCollective


def within(rank, op, group, sequence, before, **counts):
    """Return a rank that waits in a collective, and entered the operation `before` just before it."""
    latest = EnteredCollective(op, group, sequence, 4096)
    earlier = EnteredCollective(before, f"of {before}", 65, 4096)
    entered = {"sequences": {group: sequence, **counts}, "entered": (latest, earlier)}
    return inside(rank, op, sequence, group=group, **entered)


def circle(before_of_rank_0="all_gather"):
    """Return four ranks; the pairs 0, 2 and 1, 3 scatter, then all reduce. Rank 0 has not scattered."""
    return [
        within(0, "all_reduce", "0", 67, before_of_rank_0, dp0=64),
        within(1, "all_reduce", "0", 67, "reduce_scatter", dp1=65),
        within(2, "reduce_scatter", "dp0", 65, "all_gather", **{"0": 66}),
        within(3, "all_reduce", "0", 67, "reduce_scatter", dp1=65),
    ]


def test_rank_that_skipped_a_collective_of_its_pair_is_the_culprit():
    finding = detect(*circle())
    assert (finding.cause, finding.ranks, finding.severity) == ("collective_mismatch", (0,), "critical")
    assert "rank 0 on node-a has not entered reduce_scatter 65 of group dp0" in finding.summary
    assert (finding.evidence.group, finding.evidence.sequence) == ("dp0", 65)


def test_no_rank_is_named_if_its_own_order_is_that_of_the_others():
    """The numbers of collectives prove nothing if those of the others differ."""
    ranks = circle(before_of_rank_0="reduce_scatter")
    ranks[3] = within(3, "all_reduce", "0", 67, "reduce_scatter", dp1=66)
    finding = detect(*ranks)
    assert (finding.cause, finding.ranks) == ("unknown", ())


@pytest.mark.parametrize("rank", [1, 3])
def test_no_rank_is_named_if_the_others_do_not_agree_about_the_order(rank):
    ranks = circle()
    ranks[rank] = within(rank, "all_reduce", "0", 67, "broadcast", dp1=65)
    assert detect(*ranks).ranks == ()


def waits(rank, op, group, **counts):
    """Return a rank that waits in the last collective of the group, with the number of its collectives by group."""
    entered = (EnteredCollective(op, group, counts[group], 4096), EnteredCollective("barrier", "1", 1, 0))
    return inside(rank, op, counts[group], group=group, sequences=counts, entered=entered)


def crossed(tp_of_rank_3=64):
    """Return four ranks; the pairs tp0, tp1 gather, dp0, dp1 scatter, then all reduce. Rank 3 has not gathered."""
    return [
        waits(0, "reduce_scatter", "dp0", tp0=65, dp0=65, **{"0": 64}),
        waits(1, "all_reduce", "0", tp0=65, dp1=65, **{"0": 65}),
        waits(2, "all_gather", "tp1", tp1=65, dp0=64, **{"0": 64}),
        waits(3, "all_reduce", "0", tp1=tp_of_rank_3, dp1=65, **{"0": 65}),
    ]


def test_rank_that_entered_fewer_collectives_than_those_that_are_there_with_it_is_the_culprit():
    finding = detect(*crossed())
    assert (finding.cause, finding.ranks, finding.severity) == ("collective_mismatch", (3,), "critical")
    assert "rank 3 on node-a has not entered all_gather 65 of group tp1" in finding.summary
    assert "each of the ranks that are there with it has entered 1 collective more" in finding.summary


def test_no_rank_is_named_if_all_have_entered_equally_many_collectives():
    """The network of one pair is slow: nobody has passed another rank."""
    assert detect(*crossed(tp_of_rank_3=65)).ranks == ()


def test_no_rank_is_named_if_it_passed_nobody():
    """A rank with fewer collectives may have another role; those that it has, it entered in the order of the others."""
    ranks = crossed()
    ranks[2] = waits(2, "all_reduce", "0", tp1=65, dp0=65, **{"0": 65})
    ranks[0] = waits(0, "all_reduce", "0", tp0=65, dp0=65, **{"0": 65})
    assert detect(*ranks).ranks == ()


def test_no_rank_is_named_if_it_has_another_role():
    """Ranks 2 and 3, a stage, enter three collectives of their group in a step, rank 0 only one of its own group."""
    ranks = [
        waits(0, "all_reduce", "0", first=63, **{"0": 67}),
        waits(1, "all_reduce", "first", first=64, **{"0": 66}),
        waits(2, "all_reduce", "0", last=189, **{"0": 67}),
        waits(3, "all_reduce", "0", last=189, **{"0": 67}),
    ]
    assert detect(*ranks).ranks == ()


def test_no_rank_is_named_if_the_numbers_of_the_others_differ():
    ranks = crossed()
    extra = waits(4, "all_reduce", "0", tp2=60, **{"0": 65})
    assert detect(*ranks, extra).ranks == ()


def test_no_rank_is_named_if_nobody_shows_the_order():
    first, _, third, _ = circle()
    others = [within(rank, "reduce_scatter", "dp1", 65, "all_gather", **{"0": 66}) for rank in (1, 3)]
    assert detect(first, third, *others).ranks == ()
