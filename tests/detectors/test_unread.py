"""Tests of the finding about ranks that live and cannot be read."""

import re

import pytest

from tests.build import JOB, NOW
from tests.places import REPOSITORY
from zmon.detectors import ALL
from zmon.detectors.unread import Unread
from zmon.schema.api.agent import UNREAD_KINDS, UnreadRank

HEADINGS = set(re.findall(r"^## (.+)$", (REPOSITORY / "docs/runbooks.md").read_text(), re.MULTILINE))


def unread(rank=0, kind="version", seconds=10.0, host="node-a", reason="layout version 6"):
    """Return a rank that has been unread for this time, with its host."""
    return host, UnreadRank(JOB, rank, kind, reason, seconds)


def test_boxes_of_a_newer_layout_are_one_warning():
    finding = Unread().detect(JOB, [unread(3), unread(1), unread(2, host="node-b")], NOW)
    assert (finding.job_id, finding.cause, finding.severity, finding.ranks) == (JOB, "box_version", "warning", ())
    assert finding.hosts == ("node-a", "node-b")
    assert finding.summary.startswith("ranks 1, 2, 3 of job job on node-a, node-b live and cannot be watched: ")
    assert finding.summary.endswith("layout version 6")
    assert finding.onset == NOW - 10
    assert finding.evidence.unread == ("layout version 6",) * 3


@pytest.mark.parametrize("kind", [*UNREAD_KINDS, "report", "newer"])
def test_each_kind_has_a_cause_with_a_runbook(kind):
    finding = Unread().detect(JOB, [unread(None, kind)], NOW)
    assert finding.cause in Unread().causes
    assert finding.cause in HEADINGS
    assert finding.runbook.endswith(f"#{finding.cause}")
    assert finding.detail
    assert "1 rank of job job on node-a lives" in finding.summary


@pytest.mark.parametrize(
    ("ranks", "cause"),
    [
        pytest.param([unread(0, "damaged"), unread(1, "version")], "box_version", id="most certain kind first"),
        pytest.param([unread(kind="report", seconds=0.0)], "report_unreadable", id="report, at once"),
        pytest.param([unread(seconds=0.1)], None, id="a box failed once"),
        pytest.param([unread(seconds=Unread.after_seconds)], "box_version", id="a box failed for just long enough"),
        pytest.param([], None, id="no such rank"),
    ],
)
def test_box_that_cannot_be_read_for_a_while_is_reported(ranks, cause):
    finding = Unread().detect(JOB, ranks, NOW)
    assert (finding and finding.cause) == cause


def test_unread_is_not_in_the_list_of_detectors():
    assert Unread.name not in {detector.name for detector in ALL}


def test_finding_of_a_thousand_ranks_is_short():
    finding = Unread().detect(JOB, [unread(rank) for rank in range(1000)], NOW)
    assert len(finding.summary) < 400
    assert len(finding.evidence.unread) == 8
