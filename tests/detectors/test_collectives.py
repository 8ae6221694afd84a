"""Tests of the operations whose size may differ from rank to rank, but did not."""

from dataclasses import replace

from tests.build import job_steps
from tests.steps import changed
from zmon.detectors.collectives import even_ops

EVEN = job_steps(16)


def uneven(step, *sent):
    return changed(step, sent_bytes={"all_to_all": sent})


def test_operation_whose_size_was_equal_on_all_ranks_in_every_step_is_even():
    assert even_ops(EVEN) == ("all_to_all",)


def test_operation_is_not_even_after_a_single_uneven_step():
    assert even_ops((*EVEN[:-1], uneven(EVEN[-1], 8, 8, 9, 8))) == ()


def test_operation_is_not_even_if_an_uneven_step_was_not_sampled():
    """A step that stands for several others has their mean."""
    last = replace(EVEN[-1], stands_for=4, mean=uneven(EVEN[-1], 8, 8, 9, 8))
    assert even_ops((*EVEN[:-1], last)) == ()


def test_nothing_is_even_after_few_steps():
    assert even_ops(EVEN[:9]) == ()
    assert even_ops(()) == ()


def test_operation_without_bytes_is_not_even():
    assert even_ops(tuple(uneven(step, 0, 0, 0, 0) for step in EVEN)) == ()
