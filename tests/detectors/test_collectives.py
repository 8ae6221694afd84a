"""Tests of the comparison of collectives: the first mismatch, and operations that have one size on all ranks."""

from dataclasses import replace

import pytest

from tests.build import job_steps, rank_state
from tests.steps import changed
from zmon.detectors.collectives import Contribution, even_ops, first_mismatch

EVEN = job_steps(16)


def uneven(step, *sent):
    return changed(step, sent_bytes={"all_to_all": sent})


UNEVEN_MEAN = replace(EVEN[-1], stands_for=4, mean=uneven(EVEN[-1], 8, 8, 9, 8))  # it has the mean of four steps


@pytest.mark.parametrize(
    ("steps", "ops"),
    [
        (EVEN, ("all_to_all",)),
        ((*EVEN[:-1], uneven(EVEN[-1], 8, 8, 9, 8)), ()),
        ((*EVEN[:-1], UNEVEN_MEAN), ()),
        (EVEN[:9], ()),
        ((), ()),
        (tuple(uneven(step, 0, 0, 0, 0) for step in EVEN), ()),
    ],
    ids=["equal sizes", "one uneven step", "an uneven step that was not sampled", "few steps", "no step", "no bytes"],
)
def test_operation_is_even_if_its_size_was_equal_on_all_ranks_in_every_step(steps, ops):
    assert even_ops(steps) == ops


def entered(rank, op="all_reduce", num_bytes=64, sequence=7, group="0"):
    return Contribution(rank_state(rank), group, sequence, op, num_bytes)


ALIKE = [entered(rank) for rank in (0, 1)]
MISMATCHES = {
    "all are in the same collective": ([*ALIKE, entered(2)], None),
    "one rank brings another size": ([*ALIKE, entered(2, num_bytes=8)], ("0", 7, [2])),
    "sizes may differ": ([entered(rank, num_bytes=None) for rank in range(3)], None),
    "one rank is in another operation": ([*ALIKE, entered(2, op="barrier")], ("0", 7, [2])),
    "no operation has a majority": ([entered(0), entered(1, num_bytes=8)], ("0", 7, [])),
    "one rank is a collective ahead": ([*ALIKE, entered(2, sequence=8)], None),
    "an operation without a sequence": ([*ALIKE, entered(2, op="send", sequence=0)], None),
    "the earlier of two": ([*ALIKE, entered(2, num_bytes=8), entered(0, sequence=6), entered(2, "barrier", sequence=6)],
                           ("0", 6, [])),
}  # fmt: skip


@pytest.mark.parametrize(("contributions", "expected"), MISMATCHES.values(), ids=MISMATCHES)
def test_first_position_at_which_ranks_are_in_different_collectives(contributions, expected):
    mismatch = first_mismatch(contributions)
    assert (mismatch and (mismatch.group, mismatch.sequence, [r.rank for r in mismatch.minority])) == expected
