"""Tests of the generated pages: each value has its heading, unit, meaning and row."""

import re
from dataclasses import dataclass

import pytest

from scripts.architecture_page import architecture_page
from scripts.metrics_page import SUBJECTS, metrics_page
from scripts.openapi import openapi
from scripts.settings_pages import amount, field_comments, thresholds_page
from tests.places import REPOSITORY

pytestmark = pytest.mark.unit
FEWEST_THRESHOLDS = 60  # fewer: the pattern misses lines of the page, which has several for each detector


@dataclass
class _Section:
    """A dataclass with comments above and beside its fields."""

    # The first line
    # and the second.
    above: int = 1
    beside: int = 2  # beside it
    without: int = 3


def test_comment_of_a_field_is_beside_it_or_above_it():
    assert field_comments(_Section) == {"above": "The first line and the second.", "beside": "beside it", "without": ""}


def test_every_subject_of_metrics_has_a_heading():
    headings = re.findall("^## (.*)$", metrics_page(), re.MULTILINE)
    assert headings == [*SUBJECTS.values(), "Duration of steps, from hubs", "Measures"]


def test_every_threshold_has_a_sentence():
    thresholds = re.findall(r"^- `.*?(?=\n- |\n\n|\Z)", thresholds_page(), re.MULTILINE | re.DOTALL)
    without_reason = [text for text in thresholds if not re.search(r"\. [A-Z].*\.$", text, re.DOTALL)]
    assert len(thresholds) > FEWEST_THRESHOLDS
    assert without_reason == []


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("stopped_seconds", 0.3, "0.3 s"),
        ("slower_ratio", 0.2, "0.2"),
        ("train_multiple", 15.0, "15"),
        ("symbol_errors_per_second", 10.0, "10 per second"),
        ("link_recoveries_per_second", 5.0 / 60, "5 per minute"),
        ("num_steps_of_spread", 3, "3 steps"),
        ("num_loop_starts", 3, "3 starts"),
        ("num_windows", 3, "3 windows"),
    ],
)
def test_threshold_has_the_unit_of_its_name(name, value, text):
    assert amount(name, value) == text


def test_openapi_descriptions_have_no_indentation():
    schemas = openapi()["components"]["schemas"].values()
    assert [schema for schema in schemas if "\n " in schema.get("description", "")] == []


@pytest.mark.parametrize(
    "row",
    ["| `format` | yes | – |\n", "| `zmon/hub/api/` | The HTTP endpoints of the hub, one module per subject. |\n"],
)
def test_row_that_is_missing_in_a_table_of_the_architecture_is_written_again(row):
    page = (REPOSITORY / "docs/architecture.md").read_text()
    assert row in page
    assert architecture_page(page.replace(row, "")) == page


def test_text_around_the_tables_of_the_architecture_stays():
    page = (REPOSITORY / "docs/architecture.md").read_text()
    assert architecture_page(f"before\n{page}after\n") == f"before\n{page}after\n"


def test_page_without_a_place_for_a_table_is_refused():
    with pytest.raises(ValueError, match="no place for the table"):
        architecture_page("# Architecture\n")
