"""Tests of the comparison of collectives: the first mismatch, and the operations whose size was equal on all ranks."""

from dataclasses import replace

import pytest

from tests.build import job_steps, rank_state
from tests.steps import changed
from zmon.detectors.collectives import Contribution, even_ops, first_mismatch

EVEN = job_steps(16)


def with_sizes(step, *sent):
    """Return the step in which the ranks sent these bytes in its all-to-alls."""
    return changed(step, sent_bytes={"all_to_all": sent})


UNEVEN_MEAN = replace(EVEN[-1], stands_for=4, mean=with_sizes(EVEN[-1], 8, 8, 9, 8))  # one of the four was uneven


def entered(*kinds, group="0", sequence=7):
    """Return what the ranks entered at a position: an operation, or an operation and its bytes."""
    pairs = [(kind, None) if isinstance(kind, str) else kind for kind in kinds]
    return [Contribution(rank_state(rank), group, sequence, *pair) for rank, pair in enumerate(pairs)]


@pytest.mark.parametrize(
    ("contributions", "group", "sequence", "minority", "differences"),
    [
        pytest.param(
            entered("all_reduce", "all_reduce", "barrier"), "0", 7, [2], "all_reduce: ranks 0, 1; barrier: rank 2",
            id="another operation"),
        pytest.param(
            entered(("all_reduce", 8), ("all_reduce", 4), ("all_reduce", 8)), "0", 7, [1],
            "all_reduce of 8 bytes: ranks 0, 2; all_reduce of 4 bytes: rank 1", id="another size"),
        pytest.param(
            entered("all_reduce", "barrier"), "0", 7, [], "all_reduce: rank 0; barrier: rank 1", id="no majority"),
        pytest.param(
            [*entered("all_reduce", "barrier", sequence=9), *entered("barrier", "broadcast", sequence=8)], "0", 8, [],
            "barrier: rank 0; broadcast: rank 1", id="the lowest sequence is the first"),
        pytest.param(
            [*entered("all_reduce", "barrier", group="1"), *entered("barrier", "broadcast", sequence=9)], "0", 9, [],
            "barrier: rank 0; broadcast: rank 1", id="the lowest group is the first"),
    ],
)  # fmt: skip
def test_first_mismatch_is_at_the_lowest_position_and_has_the_minority(
    contributions, group, sequence, minority, differences
):
    mismatch = first_mismatch(contributions)
    assert (mismatch.group, mismatch.sequence, mismatch.differences) == (group, sequence, differences)
    assert [rank.rank for rank in mismatch.minority] == minority


@pytest.mark.parametrize(
    "contributions",
    [
        pytest.param([], id="no collective"),
        pytest.param(entered("all_reduce", "all_reduce"), id="the same operation"),
        pytest.param(entered("send", "recv", sequence=0), id="operations without a sequence"),
        pytest.param(entered("send", "recv", group=""), id="operations without a group"),
        pytest.param([*entered("all_reduce"), *entered("barrier", sequence=8)], id="other positions"),
    ],
)
def test_collectives_that_agree_or_cannot_be_compared_have_no_mismatch(contributions):
    assert first_mismatch(contributions) is None


@pytest.mark.parametrize(
    ("steps", "ops"),
    [
        pytest.param(EVEN, ("all_to_all",), id="equal sizes"),
        pytest.param((*EVEN[:-1], with_sizes(EVEN[-1], 8, 8, 9, 8)), (), id="one uneven step"),
        pytest.param((*EVEN[:-1], UNEVEN_MEAN), (), id="an uneven step that was not sampled"),
        pytest.param(EVEN[:10], ("all_to_all",), id="just enough steps"),
        pytest.param(EVEN[:9], (), id="one step too few"),
        pytest.param([replace(step, stands_for=2) for step in EVEN[:5]], ("all_to_all",), id="five stand for ten"),
        pytest.param((), (), id="no step"),
        pytest.param(tuple(with_sizes(step, 0, 0, 0, 0) for step in EVEN), (), id="no bytes"),
    ],
)
def test_operation_is_even_if_its_size_was_equal_on_all_ranks_in_every_step(steps, ops):
    assert even_ops(steps) == ops
