"""Tests of the alignment of steps: each step has a column for what ran in it on some rank, and its own mean."""

from dataclasses import replace

import msgspec
import pytest

from tests.build import measures, step_record
from tests.steps import aligned, steps_of
from zmon.job.alignment import align
from zmon.schema.steps import Steps


def aligned_of(*ranks):
    """Return the aligned steps of these ranks, each of which sends its steps in a message of its own."""
    parts = [msgspec.msgpack.encode(steps_of({str(rank): records})) for rank, records in enumerate(ranks)]
    parts = [msgspec.msgpack.decode(part, type=Steps) for part in parts]
    return align(parts, {str(rank): rank for rank in range(len(ranks))}, len(ranks))


def lists(columns):
    """Return the columns by name, as lists."""
    return {name: list(column) for name, column in columns.items()}


def test_aligned_steps_are_the_same_whether_ranks_come_together_or_in_messages_of_their_own():
    quick = [step_record(n, {"forward": 0.01 / n, "data": 0.001}, {"all_to_all": 0.02}) for n in (1, 2, 3)]
    slow = [step_record(n, {"forward": 0.03}, {"all_reduce": 0.01 * n}, samples=None) for n in (1, 2, 3)]
    assert aligned_of(quick, slow) == [aligned(n, [quick[n - 1], slow[n - 1]]) for n in (1, 2, 3)]


def test_aligned_step_has_the_values_of_all_ranks():
    quick = step_record(7, {"forward": 0.010, "data": 0.001}, {"all_to_all": 0.020}, samples=8)
    slow = step_record(7, {"forward": 0.029}, {"all_to_all": 0.001, "all_reduce": 0.001}, samples=None)
    step = aligned(7, [quick, slow])
    assert step.self_seconds == pytest.approx((0.011, 0.029))
    assert lists(step.phases) == {"forward": [0.010, 0.029], "data": [0.001, 0.0]}
    assert lists(step.exposed) == {"all_to_all": [0.020, 0.001], "all_reduce": [0.0, 0.001]}
    assert lists(step.sent_bytes) == lists(step.received_bytes) == {"all_to_all": [8, 8], "all_reduce": [0, 8]}
    assert list(step.lookups) == [None, None]


@pytest.mark.parametrize("first", [0, -1, 1 << 40])
def test_steps_are_aligned_by_their_numbers_whatever_these_are(first):
    """A job may number its steps from 0."""
    steps = aligned_of([step_record(first)], [step_record(first), step_record(first + 1)])
    assert [step.step for step in steps] == [first]


def test_steps_of_a_rank_beyond_the_world_size_are_left_out():
    ranks = {"0": step_record(1), "1": step_record(1), "2": step_record(1, {"forward": 0.5})}
    steps = steps_of({uid: [record] for uid, record in ranks.items()})
    (step,) = align([steps], {"0": 0, "1": 1, "2": 2}, 2)
    assert lists(step.phases) == {"forward": [0.01, 0.01]}


def test_mean_is_there_if_every_rank_has_one():
    with_mean = replace(step_record(8, {"forward": 0.01, "data": 0.002}), mean=measures({"forward": 0.5}))
    (step,) = aligned_of([with_mean], [with_mean])
    assert lists(step.mean.phases) == {"forward": [0.5, 0.5]}  # `data` ran in this step alone
    assert list(step.phases["forward"]) == [0.01, 0.01]
    (step,) = aligned_of([with_mean], [step_record(8)])
    assert step.mean is None


@pytest.mark.parametrize(
    ("sent", "known"),
    [
        pytest.param(32, 32, id="known"),
        pytest.param(None, None, id="unknown"),
        pytest.param(1 << 63, None, id="more than a rank can count"),
    ],
)
@pytest.mark.parametrize("other", [32, None])
def test_amount_that_a_rank_does_not_know_or_cannot_have_counted_is_unknown(sent, known, other):
    """A log can claim such a number; a report cannot, because the hub refuses it."""
    step = aligned(1, [step_record(1, samples=sent), step_record(1, samples=other)])
    assert list(step.samples) == [known, other]


@pytest.mark.parametrize(
    ("last", "seconds"),
    [
        (step_record(1, {"forward": 0.040}, {"all_to_all": 0.005}), 0.045),  # the early rank also counts its wait
        (step_record(1, {}, {}), 0.090),  # without times, which a GPU may report too late, it is not critical
    ],
)
def test_duration_of_an_aligned_step_is_that_of_the_critical_rank(last, seconds):
    early = step_record(1, {"forward": 0.010}, {"all_to_all": 0.080})
    assert aligned(1, [early, last]).seconds == pytest.approx(seconds)


def test_op_that_ran_on_no_rank_in_a_step_has_no_column_there():
    odd = step_record(2, {"forward": 0.01}, {})
    both = aligned_of([step_record(1), odd], [step_record(1), odd])
    assert [sorted(step.exposed) for step in both] == [["all_to_all"], []]


def test_ranks_with_other_phases_do_not_give_a_step_a_phase_that_ran_in_another_step():
    first, second = step_record(1, {"data": 0.1}, {}), step_record(2, {"forward": 0.1}, {})
    (one, two) = aligned_of([first, second], [replace(second, step=1), second])
    assert (sorted(one.phases), sorted(two.phases)) == (["data", "forward"], ["forward"])


def test_times_that_no_step_has_do_not_wrap_around():
    """A job can write them into its box."""
    longest = step_record(1, dict.fromkeys(("data", "forward", "backward"), 4.6e9), {})
    (step,) = aligned_of([longest], [longest])
    assert step.seconds > 1.3e10
