"""Test the form of the pages that people read first: short cells of tables, and an index of all design decisions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.places import REPOSITORY

pytestmark = pytest.mark.unit

ADR = REPOSITORY / "docs" / "adr"
MAX_CHARACTERS = 120  # of a cell: a longer one belongs in a section, or in the docstring of its file
GENERATED = re.compile(r"<!-- the table of scripts/imports\.py.*?<!-- end of the table -->", re.DOTALL)


def cells(page: str) -> Iterator[str]:
    """Yield the cells of all tables that are written by hand or made of first lines of docstrings."""
    for line in GENERATED.sub("", page).splitlines():
        if line.startswith("| "):
            yield from (cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1])


@pytest.mark.parametrize("page", ["README.md", "docs/architecture.md", "docs/adr/README.md", "docs/adr/archive.md"])
def test_cells_are_short(page):
    all_cells = [*cells((REPOSITORY / page).read_text())]
    assert all_cells
    assert [cell for cell in all_cells if len(cell) > MAX_CHARACTERS] == []


def test_cells_of_a_row():
    assert [*cells("| a | b \\| c |\nno | cell |\n")] == ["a", "b \\| c"]


def decisions(page: Path) -> list[str]:
    """Return the files of the decisions that a page lists."""
    return re.findall(r"^\| \d+ \| \[.*?\]\((\d{4}-[\w-]+\.md)\) \|", page.read_text(), re.MULTILINE)


def test_each_decision_is_in_the_index_or_in_the_archive():
    listed = [*decisions(ADR / "README.md"), *decisions(ADR / "archive.md")]
    assert sorted(listed) == sorted(file.name for file in ADR.glob("0*.md"))
