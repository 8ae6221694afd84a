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
    finding = detect(*circle(before_of_rank_0="reduce_scatter"))
    assert (finding.cause, finding.ranks) == ("unknown", ())


@pytest.mark.parametrize("rank", [1, 3])
def test_no_rank_is_named_if_the_others_do_not_agree_about_the_order(rank):
    ranks = circle()
    ranks[rank] = within(rank, "all_reduce", "0", 67, "broadcast", dp1=65)
    assert detect(*ranks).ranks == ()


def test_no_rank_is_named_if_nobody_shows_the_order():
    first, _, third, _ = circle()
    others = [within(rank, "reduce_scatter", "dp1", 65, "all_gather", **{"0": 66}) for rank in (1, 3)]
    assert detect(first, third, *others).ranks == ()
