"""Tests of sharding plans as text: placements, prediction, and numbers of bytes."""

import re

import pytest

from tests.trainer.scale.sharding.example_plan import LOADS, PLACEMENTS, PLAN, ROWS
from trainer.scale.sharding.plan import Plan
from trainer.scale.sharding.text import as_text, in_bytes
from trainer.sharding import Placement


def test_text_has_placement_and_prediction() -> None:
    lines = [re.sub(" +", " ", line).strip() for line in as_text(PLAN, ROWS, (100,) * 3).splitlines()]
    assert lines == [
        "3 tables on 2 ranks",
        "kind ranks tables rows bytes which",
        "data_parallel 0-1 1 6 600 B 2",
        "row_wise 0-1 1 4 400 B 1",
        "table_wise 1 1 10 1 kB 0",
        "",
        "predicted for a step, without the dense layers",
        "rank tables lookups sent received all-reduced time memory",
        "0 2 15 2 kB 3 kB 400 B 1.5 ms 1 MB",
        "1 3 25 2.1 kB 3.1 kB 400 B 2.5 ms 1.01 MB",
        "memory of rank 1: base 1 MB, weights 8 kB, state 1 kB, batch 70 B",
    ]


def test_text_is_short_for_many_tables_and_ranks() -> None:
    few = Plan(1, (Placement("table_wise", (0,)),) * 26)
    assert len(as_text(few, (5,) * 26, (8,) * 26).splitlines()) == 3
    assert "0-25" in as_text(few, (5,) * 26, (8,) * 26)
    many = Plan(40, (Placement("row_wise", tuple(range(40))),), (LOADS[0],) * 39 + (LOADS[1],))
    text = as_text(many, (80,), (8,))
    assert "and 32 faster ranks" in text
    assert "\n  39 " in text  # the slowest rank is in the text


def test_plan_without_prediction_prints_no_prediction() -> None:
    assert "predicted" not in as_text(Plan(2, PLACEMENTS), ROWS, (8,) * 3)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (999.7, "1 kB"),
        (12_345, "12.3 kB"),
        (2e9, "2 GB"),
        (3e12, "3 TB"),
        (2e16, "20,000 TB"),
    ],
)
def test_bytes_are_formatted_with_rounded_value_and_unit(size: float, text: str) -> None:
    assert in_bytes(size) == text
