"""Tests of the steps that a hub refuses, because no agent sends such steps."""

from dataclasses import replace

import msgspec
import pytest

from zmon.schema.steps import (
    MAX_COLUMNS,
    MAX_NUMBER,
    MAX_ROWS_OF_RANK,
    MAX_VALUES,
    STEP,
    Steps,
    check_steps,
    check_values,
)

VALID = Steps.from_columns(
    ("a", "b"), (1, 2), {STEP: [1, 1, 2], "samples": [5, 6, 5 + 2**40], "lookups": [4, 4, 4], "phase_data": [0, 300, 1]}
)


def test_number_of_values_is_that_of_all_columns():
    assert check_steps(VALID) == 3 * 4
    assert check_steps(Steps()) == 0
    assert check_steps(Steps(("a",), (0,))) == 0


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"counts": (3,)}, "do not belong to its ranks"),
        ({"counts": (-1, 4)}, "do not belong to its ranks"),
        ({"run_uids": ("a",)}, "do not belong to its ranks"),
        ({"run_uids": ("a", "a")}, "a rank is there twice"),
        ({"counts": (1, MAX_ROWS_OF_RANK + 1)}, "a rank has 1,025 steps; zmon accepts 1,024"),
        ({"bases": {**VALID.bases, **{f"x{n}": 1 for n in range(MAX_COLUMNS)}}}, "it has 260 columns"),
        ({"bases": {**VALID.bases, "phase_\x1b[2J": 1}}, "not plain text"),
        ({"bases": {**VALID.bases, "phase_\u202e": 1}}, "not plain text"),
        ({"varying": {**VALID.varying, "B": (STEP, STEP)}, "data": VALID.data + bytes(3)}, "there twice"),
        ({"varying": {**VALID.varying, "B": (STEP, "samples")}, "data": VALID.data + bytes(3)}, "there twice"),
        ({"varying": {**VALID.varying, "B": (STEP, "flops")}, "data": VALID.data + bytes(3)}, "no lowest number"),
        ({"data": VALID.data[:-1]}, "not one number for each row"),
        ({"data": VALID.data + b"\0"}, "not one number for each row"),
        ({"data": b""}, "not one number for each row"),
        ({"counts": (1, 1)}, "not one number for each row"),
        ({"varying": dict(reversed(VALID.varying.items()))}, "not in order"),
        ({"bases": {**VALID.bases, "lookups": MAX_NUMBER}}, "too large"),
        ({"bases": {**VALID.bases, "lookups": -MAX_NUMBER - 1}}, "too large"),
        ({"bases": {**VALID.bases, "lookups": 10**30}}, "too large"),
        ({"bases": {**VALID.bases, "samples": MAX_NUMBER - 1}}, "too large"),
        ({"bases": {**VALID.bases, "samples": -MAX_NUMBER}, "data": VALID.data[:-8] + b"\xff" * 8}, "too large"),
        ({"bases": {"lookups": 4}, "varying": {}, "data": b""}, "its steps have no numbers"),
    ],
)  # fmt: skip
def test_steps_that_do_not_fit_are_refused(changes, reason):
    with pytest.raises(ValueError, match=reason):
        check_steps(replace(VALID, **changes))


def test_type_of_differences_that_does_not_exist_cannot_be_received():
    raw = msgspec.json.encode({"run_uids": ["a"], "counts": [1], "bases": {STEP: 1}, "varying": {"d": ["x"]}})
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(raw, type=Steps)


@pytest.mark.parametrize("base", [1.5, None, "1"])
def test_number_that_is_not_whole_cannot_be_received(base):
    raw = msgspec.json.encode({"run_uids": ["a"], "counts": [1], "bases": {STEP: base}})
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(raw, type=Steps)


def test_largest_numbers_are_accepted_and_can_be_read():
    steps = replace(VALID, bases={**VALID.bases, "lookups": MAX_NUMBER - 1, "samples": MAX_NUMBER - 1 - 2**40})
    check_steps(steps)
    assert max(steps.column("samples")) == max(steps.column("lookups")) == MAX_NUMBER - 1


@pytest.mark.parametrize(("most", "name"), [(MAX_ROWS_OF_RANK, "rows"), (MAX_COLUMNS, "columns")])
def test_rows_and_columns_are_limited(most, name):
    """Steps that are alike in all rows have few bytes, whatever their number."""

    def alike(rows=1, columns=1):
        return Steps(("a",), (rows,), {STEP: 5} | {f"phase_{number}": 1 for number in range(columns - 1)})

    assert check_steps(alike(**{name: most})) == most
    with pytest.raises(ValueError, match=f"{most + 1:,}"):
        check_steps(alike(**{name: most + 1}))


def test_values_of_one_report_are_limited():
    check_values(MAX_VALUES)
    with pytest.raises(ValueError, match="4,194,305 values"):
        check_values(MAX_VALUES + 1)
