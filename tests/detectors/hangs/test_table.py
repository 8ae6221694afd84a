"""Tests of every row of docs/hangs.md: what the ranks do when nothing moves, and what the network does."""

import pytest

from scripts.hangs_page import SECTIONS, hangs_page
from tests.detectors.stalls import judged
from tests.places import REPOSITORY


@pytest.mark.parametrize("row", [row for rows in SECTIONS.values() for row in rows], ids=str)
def test_job_that_stands_still_has_its_finding(row):
    due, summary = judged(row.job)
    assert due == row.due
    assert [part for part in row.says.split(" … ") if part not in summary] == []
    assert "critical" not in due or "it becomes critical" not in summary


def test_page_of_the_docs_has_these_rows():
    assert (REPOSITORY / "docs/hangs.md").read_text() == hangs_page(), "run `make generate`"
