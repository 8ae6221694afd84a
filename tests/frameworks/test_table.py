"""Tests of the table of frameworks: its pins, its reasons, and that its page shows its last results."""

from dataclasses import replace

import pytest

from scripts.frameworks_page import frameworks_page
from tests.frameworks.results import Result, read_results, surprises
from tests.frameworks.table import COLUMNS, ENVIRONMENTS, NOTEBOOK, ROWS
from tests.places import REPOSITORY

pytestmark = pytest.mark.unit

ROW = ROWS[0]
EXPECTED_WRONG = replace(ROW, wrong={"steps": "why"})
RIGHT = Result(ROW.name, "2026-11-27", {}, dict.fromkeys(COLUMNS, ""), 0.7)
WRONG = replace(RIGHT, wrong={**RIGHT.wrong, "steps": "9 of 10"})
NOT_RUN = replace(RIGHT, wrong={}, not_run="it hangs")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_row_has_a_script_an_environment_and_a_reason_for_each_exception(row):
    scripts = REPOSITORY / "tests/frameworks/jobs"
    assert row is NOTEBOOK or (scripts / f"{row.script}.py").is_file()
    assert row.environment in ENVIRONMENTS
    assert {*row.lacks, *row.wrong} <= COLUMNS.keys()
    assert all(reason.strip() for reason in (*row.lacks.values(), *row.wrong.values()))


def test_names_of_rows_are_unique():
    assert len({row.name for row in ROWS}) == len(ROWS)


def test_packages_have_versions_and_none_is_torch():
    packages = [word for environment in ENVIRONMENTS.values() for word in (*environment.packages, *environment.alone)]
    assert [package for package in packages if "==" not in package or package.startswith("torch==")] == []


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_last_result_of_each_row_is_what_the_table_says(row):
    results = read_results()
    assert row.name in results, f"make test-frameworks ONLY={row.name}"
    assert surprises(row, results[row.name]) == []


def test_page_is_up_to_date():
    assert (REPOSITORY / "docs/frameworks.md").read_text() == frameworks_page()


@pytest.mark.parametrize(
    ("row", "result", "lines"),
    [
        (ROW, RIGHT, []),
        (ROW, WRONG, ["ddp, steps: wrong: 9 of 10"]),
        (EXPECTED_WRONG, WRONG, []),
        (EXPECTED_WRONG, RIGHT, ["ddp, steps: right, but the table has a reason why it is wrong"]),
        (ROW, NOT_RUN, ["ddp: it hangs"]),
        (replace(ROW, not_run="no GPU"), NOT_RUN, []),
        (replace(ROW, not_run="no GPU"), RIGHT, ["ddp: it runs, and the table has a reason why not"]),
    ],
)
def test_surprise_is_what_the_table_does_not_say(row, result, lines):
    assert surprises(row, result) == lines


def test_column_that_was_not_judged_is_a_surprise():
    wrong = {column: "" for column in COLUMNS if column != "freeze"}
    assert surprises(ROW, replace(RIGHT, wrong=wrong)) == ["ddp, freeze: wrong: it was not judged"]
