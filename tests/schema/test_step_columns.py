"""Tests of step records as columns: nothing is lost but digits of seconds, and a wrong column is refused."""

from dataclasses import replace

import msgspec
import pytest

from tests.build import add_records, measures, step_record
from zmon.job.history import History
from zmon.schema.step_columns import Column, StepColumns, check_columns, step_columns


def received(columns):
    """Return the columns as they are after a message."""
    result = msgspec.msgpack.decode(msgspec.msgpack.encode(columns), type=StepColumns)
    check_columns(result)
    return result


def records(*steps, **others):
    return tuple(step_record(step, **others) for step in steps)


def aligned(by_rank, code):
    """Return the aligned steps of these ranks, whose records were sent as columns."""
    history = History(len(by_rank))
    columns = step_columns({str(rank): steps for rank, steps in by_rank.items()}, code)
    return history.add([received(columns)], {str(rank): rank for rank in by_rank})


def test_aligned_steps_are_the_same_before_and_after_a_message():
    quick = tuple(step_record(n, {"forward": 0.01 / n, "data": 0.001}, {"all_to_all": 0.02}) for n in (1, 2, 3))
    slow = tuple(step_record(n, {"forward": 0.03}, {"all_reduce": 0.01 * n}, samples=None) for n in (1, 2, 3))
    assert aligned({0: quick, 1: slow}, "d") == add_records(History(2), {0: quick, 1: slow})


def test_seconds_of_32_bits_keep_seven_digits():
    (step,) = aligned({0: records(1), 1: (step_record(1, {"forward": 1.23456789}),)}, "f")
    assert step.phases["forward"][1] == pytest.approx(1.23456789, rel=1e-7)


def test_mean_is_kept_where_a_record_has_one():
    with_mean = replace(step_record(8), mean=measures({"forward": 0.5}))
    (step,) = aligned({0: (with_mean,), 1: (with_mean,)}, "d")
    assert list(step.mean.phases["forward"]) == [0.5, 0.5]
    (step,) = aligned({0: (with_mean,), 1: records(8)}, "d")
    assert step.mean is None


def test_number_that_one_rank_does_not_know_stays_unknown():
    (step,) = aligned({0: records(1), 1: records(1, samples=None)}, "d")
    assert list(step.samples) == [32, None]
    (step,) = aligned({0: records(1, samples=None), 1: records(1, samples=None)}, "d")
    assert list(step.samples) == [None, None]


def test_number_that_is_alike_or_close_takes_few_bytes():
    columns = step_columns({"a": records(*range(10**12, 10**12 + 100))})
    assert (columns.steps.base, columns.steps.code, len(columns.steps.data)) == (10**12, "B", 100)
    assert columns.measures.samples == Column(32)


def test_phase_that_ran_on_no_rank_in_a_step_has_no_column_there():
    odd = step_record(2, {"forward": 0.01}, {})
    both = aligned({0: (*records(1), odd), 1: (*records(1), odd)}, "d")
    assert [sorted(step.exposed) for step in both] == [["all_to_all"], []]


def test_phase_that_took_no_time_has_a_column_of_zeros():
    """It is known to be zero."""
    (step,) = aligned({0: (step_record(1, {"data": 0.0}, {"barrier": 0.0}),)}, "d")
    assert (list(step.phases["data"]), list(step.exposed["barrier"])) == ([0.0], [0.0])


def test_ranks_with_other_phases_do_not_give_a_step_a_phase_that_ran_in_another_step():
    first, second = step_record(1, {"data": 0.1}, {}), step_record(2, {"forward": 0.1}, {})
    (one, two) = aligned({0: (first, second), 1: (replace(second, step=1), second)}, "d")
    assert (sorted(one.phases), sorted(two.phases)) == (["data", "forward"], ["forward"])


VALID = step_columns({"a": records(1, 2), "b": records(1, 3)})
MEASURES = VALID.measures


def with_measures(**changes):
    return msgspec.structs.replace(VALID, measures=msgspec.structs.replace(MEASURES, **changes))


@pytest.mark.parametrize(
    "columns",
    [
        msgspec.structs.replace(VALID, counts=(4,)),
        msgspec.structs.replace(VALID, counts=(-1, 5)),
        msgspec.structs.replace(VALID, counts=(1 << 21, 2)),
        msgspec.structs.replace(VALID, steps=Column(1, "B", b"\0" * 3)),
        msgspec.structs.replace(VALID, steps=Column(1.5, "B", b"\0" * 4)),
        msgspec.structs.replace(VALID, steps=Column(None)),
        msgspec.structs.replace(VALID, steps=Column(1, "d", b"\0" * 32)),
        with_measures(samples=Column(values=(1, None))),
        with_measures(phases={"forward": Column(0.0, "f", b"\0\0\xc0\x7f" * 4)}),
        with_measures(phases={"forward": Column(0.0, "d", b"\0" * 8 * 3)}),
        with_measures(phases={"forward": Column(None)}),
        with_measures(phases={"forward": Column(0, "I", b"\0" * 16)}),
        with_measures(phases={"a\x1b[2J": Column(0.0)}),
        with_measures(exposed={**MEASURES.exposed, "send": Column(0.0)}),
    ],
)  # fmt: skip
def test_columns_that_do_not_fit_are_refused(columns):
    with pytest.raises((ValueError, msgspec.ValidationError)):
        received(columns)
