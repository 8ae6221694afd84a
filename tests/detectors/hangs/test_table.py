"""Tests of the rows of docs/hangs.md about ranks: what they do when nothing moves."""

import pytest

from scripts.hangs_page import hangs_page
from tests.detectors.hangs.table import SECTIONS
from tests.detectors.stalls import judged
from tests.places import REPOSITORY


@pytest.mark.parametrize("row", [row for rows in SECTIONS.values() for row in rows], ids=str)
def test_job_that_stands_still_has_its_finding(row):
    assert judged(row) == (row.due, [])


def test_page_of_the_docs_has_these_rows():
    assert (REPOSITORY / "docs/hangs.md").read_text() == hangs_page(), "run `make generate`"
