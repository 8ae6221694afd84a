"""Test the form of the pages: short cells of tables, links to headings, and an index of all design decisions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.places import REPOSITORY
from tests.test_paths import tracked_files

pytestmark = pytest.mark.unit

ADR = REPOSITORY / "docs" / "adr"
MAX_CHARACTERS = 120  # of a cell: a longer text belongs in a section, or in the docstring of a file
ROWS_OF_TESTS = ("endings", "failures", "frameworks", "hangs", "slowness")
GENERATED = {f"docs/{name}.md" for name in (*ROWS_OF_TESTS, "metrics", "trainer-keys")}
IMPORTS = re.compile(r"<!-- the table of scripts/imports\.py.*?<!-- end of the table -->", re.DOTALL)
LINK = re.compile(r"\]\((?!http)([^)#\s]*)#([^)\s]+)\)")  # a page, or none for the same page, and a heading
ADDRESS = re.compile(r"\]\([^)]*\)")  # of a link: a reader does not see it


def cells(page: str) -> Iterator[str]:
    """Yield the cells of all tables of a page, without the addresses of links. The table of imports is left out."""
    for line in IMPORTS.sub("", page).splitlines():
        if line.startswith("| "):
            yield from (ADDRESS.sub("]", cell.strip()) for cell in re.split(r"(?<!\\)\|", line)[1:-1])


@pytest.mark.parametrize("page", [file for file in tracked_files() if file.endswith(".md") and file not in GENERATED])
def test_cells_are_short(page):
    assert [cell for cell in cells((REPOSITORY / page).read_text()) if len(cell) > MAX_CHARACTERS] == []


def test_cells_of_a_row():
    assert [*cells("| a | b \\| c | [d](e.md) |\nno | cell |\n")] == ["a", "b \\| c", "[d]"]


def anchors(text: str) -> set[str]:
    """Return the anchors of the headings of a page, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", ADDRESS.sub("]", heading)).lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", [file for file in tracked_files() if file.endswith(".md")])
def test_links_lead_to_headings(page):
    place = REPOSITORY / page
    links = [(place.parent / path if path else place, anchor) for path, anchor in LINK.findall(place.read_text())]
    assert [link for link in links if link[1] not in anchors(link[0].read_text())] == []


def test_anchor_of_a_heading():
    assert anchors("# What `zmon doctor` cannot check, [here](a.md)\ntext\n") == {"what-zmon-doctor-cannot-check-here"}


def test_glossary_is_in_alphabetical_order():
    table = (REPOSITORY / "docs/glossary.md").read_text().partition("\n## ")[0]
    terms = re.findall(r"^\| (.*?) \|", table.lower(), re.MULTILINE)[1:]
    assert terms == sorted(terms)


def decisions(page: Path) -> list[str]:
    """Return the files of the decisions that a page lists."""
    return re.findall(r"^\| \d+ \| \[.*?\]\((\d{4}-[\w-]+\.md)\) \|", page.read_text(), re.MULTILINE)


def test_each_decision_is_in_the_index_or_in_the_archive():
    listed = [*decisions(ADR / "README.md"), *decisions(ADR / "archive.md")]
    assert sorted(listed) == sorted(file.name for file in ADR.glob("0*.md"))
