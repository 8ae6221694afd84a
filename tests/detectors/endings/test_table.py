"""Tests of every row of docs/endings.md: how a process ended, when, and under which launcher; how a job ended."""

import pytest

from scripts.endings_page import SECTIONS, endings_page
from tests.detectors.endings.one_rank_rows import ORDERS
from tests.detectors.endings.table import LAUNCHERS, WAYS, WHENS, expected, ranks_after
from tests.detectors.stalls import detect, judged
from tests.places import REPOSITORY


@pytest.mark.parametrize("launcher", LAUNCHERS, ids=lambda launcher: launcher.name)
@pytest.mark.parametrize("when", WHENS)
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_end_of_one_rank_has_its_cause_severity_and_culprit(way, when, launcher):
    cause, severity, culprits = expected(way, when, launcher)
    finding = detect(*ranks_after(way, when, launcher))
    assert (finding and (finding.cause, finding.severity, finding.ranks)) == (
        (cause, severity, culprits) if cause else None
    )


@pytest.mark.parametrize("row", [*ORDERS, *(row for rows in SECTIONS.values() for row in rows)], ids=str)
def test_end_of_the_job_has_its_cause_severity_and_culprits(row):
    assert judged(row) == (row.due, [])


def test_page_of_the_docs_has_these_rows():
    assert (REPOSITORY / "docs/endings.md").read_text() == endings_page(), "run `make generate`"
