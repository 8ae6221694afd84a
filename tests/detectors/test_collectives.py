"""Tests of the operations whose size may differ from rank to rank, but did not."""

from dataclasses import replace

import pytest

from tests.build import job_steps
from tests.steps import changed
from zmon.detectors.collectives import even_ops

EVEN = job_steps(16)


def uneven(step, *sent):
    return changed(step, sent_bytes={"all_to_all": sent})


NOT_SAMPLED = replace(EVEN[-1], stands_for=4, mean=uneven(EVEN[-1], 8, 8, 9, 8))  # it has the mean of four steps


@pytest.mark.parametrize(
    ("steps", "ops"),
    [
        (EVEN, ("all_to_all",)),
        ((*EVEN[:-1], uneven(EVEN[-1], 8, 8, 9, 8)), ()),
        ((*EVEN[:-1], NOT_SAMPLED), ()),
        (EVEN[:9], ()),
        ((), ()),
        (tuple(uneven(step, 0, 0, 0, 0) for step in EVEN), ()),
    ],
    ids=["equal sizes", "one uneven step", "an uneven step that was not sampled", "few steps", "no step", "no bytes"],
)
def test_operation_is_even_if_its_size_was_equal_on_all_ranks_in_every_step(steps, ops):
    assert even_ops(steps) == ops
