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
        ({"columns": {**VALID.columns, **{f"x{n}": (1, b"") for n in range(MAX_COLUMNS)}}}, "it has 260 columns"),
        ({"columns": {**VALID.columns, "phase_\x1b[2J": (1, b"")}}, "not plain text"),
        ({"columns": {**VALID.columns, "phase_\u202e": (1, b"")}}, "not plain text"),
        ({"columns": {**VALID.columns, STEP: (1, bytes(2))}}, "not one number for each row"),
        ({"columns": {**VALID.columns, STEP: (1, bytes(9))}}, "not one number for each row"),
        ({"columns": {**VALID.columns, STEP: (1, bytes(48))}}, "not one number for each row"),
        ({"counts": (0, 0)}, "not one number for each row"),
        ({"counts": (1, 1)}, "not one number for each row"),
        ({"columns": {**VALID.columns, "lookups": (MAX_NUMBER, b"")}}, "too large"),
        ({"columns": {**VALID.columns, "lookups": (-MAX_NUMBER - 1, b"")}}, "too large"),
        ({"columns": {**VALID.columns, "lookups": (10**30, b"")}}, "too large"),
        ({"columns": {**VALID.columns, "samples": (MAX_NUMBER - 1, VALID.columns["samples"][1])}}, "too large"),
        ({"columns": {**VALID.columns, "samples": (-MAX_NUMBER, bytes(16) + b"\xff" * 8)}}, "too large"),
        ({"columns": {"lookups": (4, b"")}}, "its steps have no numbers"),
    ],
)  # fmt: skip
def test_steps_that_do_not_fit_are_refused(changes, reason):
    with pytest.raises(ValueError, match=reason):
        check_steps(replace(VALID, **changes))


@pytest.mark.parametrize("first_value", [1.5, None, "1"])
def test_number_that_is_not_whole_cannot_be_received(first_value):
    raw = msgspec.json.encode({"run_uids": ["a"], "counts": [1], "columns": {STEP: [first_value, ""]}})
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(raw, type=Steps)


def test_largest_numbers_are_accepted_and_can_be_read():
    samples = MAX_NUMBER - 1 - 2**40, VALID.columns["samples"][1]
    steps = replace(VALID, columns={**VALID.columns, "lookups": (MAX_NUMBER - 1, b""), "samples": samples})
    check_steps(steps)
    assert max(steps.column("samples")) == max(steps.column("lookups")) == MAX_NUMBER - 1


@pytest.mark.parametrize(("most", "name"), [(MAX_ROWS_OF_RANK, "rows"), (MAX_COLUMNS, "columns")])
def test_rows_and_columns_are_limited(most, name):
    """Steps that are alike in all rows have few bytes, whatever their number."""

    def alike(rows=1, columns=1):
        phases = {f"phase_{number}": (1, b"") for number in range(columns - 1)}
        return Steps(("a",), (rows,), {STEP: (5, b""), **phases})

    assert check_steps(alike(**{name: most})) == most
    with pytest.raises(ValueError, match=f"{most + 1:,}"):
        check_steps(alike(**{name: most + 1}))


def test_values_of_one_report_are_limited():
    check_values(MAX_VALUES)
    with pytest.raises(ValueError, match="4,194,305 values"):
        check_values(MAX_VALUES + 1)
