"""Tests of step records as columns: nothing is lost but digits of seconds, and a wrong column is refused."""

from dataclasses import replace

import msgspec
import pytest
from zmon.schema.step_columns import (
    MAX_NAMES,
    MAX_RECORDS_OF_RANK,
    MAX_VALUES,
    Column,
    MeasureColumns,
    StepColumns,
    check_columns,
    check_records,
    check_values,
    step_columns,
)

from tests.build import add_records, measures, step_record
from zmon.job.history import History


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
        msgspec.structs.replace(VALID, run_uids=("a", "a")),
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


# -- a small report that would become much -----------------------------------------------------------------


def constant(num_ranks=1, num_records=1, num_phases=1, num_ops=0):
    """Return columns that are the same in all records, and so have few bytes."""
    column, ops = Column(1), {f"op {number}": Column(1) for number in range(num_ops)}
    seconds = {f"op {number}": Column(0.1) for number in range(num_ops)}
    phases = {f"phase {number}": Column(0.1) for number in range(num_phases)}
    part = MeasureColumns(phases, seconds, ops, ops, column, column)
    uids = tuple(f"uid-{rank}" for rank in range(num_ranks))
    return StepColumns(uids, (num_records,) * num_ranks, Column(5), part, None, Column(0), column)


@pytest.mark.parametrize(
    ("most", "name"), [(MAX_RECORDS_OF_RANK, "num_records"), (MAX_NAMES, "num_phases"), (MAX_NAMES, "num_ops")]
)
def test_records_and_names_are_limited(most, name):
    received(constant(**{name: most}))
    with pytest.raises(ValueError, match=f"{most + 1}|{most + 1:,}"):
        received(constant(**{name: most + 1}))


def test_number_of_values_is_that_of_all_columns():
    columns = constant(num_ranks=2, num_records=3, num_phases=4, num_ops=5)
    assert check_columns(columns) == 6 * (4 + 3 * 5 + 7)
    with_mean = msgspec.structs.replace(columns, mean=columns.measures)
    assert check_columns(with_mean) == 6 * (2 * (4 + 3 * 5 + 4) + 3)


def test_values_of_one_report_are_limited():
    check_values(MAX_VALUES)
    with pytest.raises(ValueError, match="values"):
        check_values(MAX_VALUES + 1)


def test_records_in_json_have_the_same_limits():
    rows = tuple(step_record(step, {f"phase {step}": 0.1}, {}) for step in range(MAX_NAMES))
    assert check_records({"a": rows}) >= check_columns(step_columns({"a": rows}))
    with pytest.raises(ValueError, match="65 phases"):
        check_records({"a": (*rows, step_record(99, {"another": 0.1}, {}))})
    with pytest.raises(ValueError, match="1,025 records"):
        check_records({"a": records(*range(MAX_RECORDS_OF_RANK + 1))})
    with_mean = replace(step_record(8), mean=measures({"another": 0.1}, {}))
    with pytest.raises(ValueError, match="65 phases"):
        check_records({"a": (*rows[1:], with_mean)})
