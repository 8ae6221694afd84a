"""Tests of every row of docs/slowness.md: what a job does, and how a finding ends."""

import pytest

from scripts.slowness_page import slowness_page
from tests.detectors.slow.case import reported
from tests.detectors.slow.table import SECTIONS
from tests.places import REPOSITORY

ROWS = [pytest.param(s.detector, case, id=f"{s.title}: {case.what}") for s in SECTIONS for case in s.cases]
ENDS = [pytest.param(s.detector, row, id=f"{s.title}: {row.what}") for s in SECTIONS for row in s.resolutions]


@pytest.mark.parametrize(("detector", "case"), ROWS)
def test_job_has_the_finding_of_its_row_or_none(detector, case):
    for job in case.jobs():
        findings = reported(detector, job)
        due = [(case.cause, case.severity, case.culprits)] if case.cause else []
        assert [(f.cause, f.severity, f.ranks or f.hosts) for f in findings] == due
        for finding in findings:
            judge(finding, case, job)


def judge(finding, case, job):
    """Assert what the row says about the text of its finding, and what holds for all of them."""
    text = f"{finding.summary} {finding.detail} {finding.evidence}"
    assert not [part for part in case.says if part not in text], text
    assert case.hides not in text
    assert finding.runbook == f"docs/runbooks.md#{case.cause}"
    if finding.detector == "stall":
        return  # the rest is about slowness
    assert (finding.op, finding.sequence) == ("all_to_all" if case.cause == "all_to_all_skew" else None, None)
    if finding.ranks:
        assert finding.hosts == tuple(state.host for state in job.ranks if state.rank in finding.ranks)
    if case.lost is not None:
        num_gpus, hours = len(job.ranks), (finding.detected - finding.onset) / 3600
        assert finding.lost_gpu_hours == pytest.approx(case.lost * num_gpus * hours, abs=0.02 * num_gpus * hours)


@pytest.mark.parametrize(("detector", "row"), ENDS)
def test_finding_resolves_or_stays_open(detector, row):
    (finding,) = detector.detect(row.opened())
    jobs = [row.now(argument) for argument in row.over] if row.over else [row.now()]
    assert [detector.can_resolve(job, finding) for job in jobs] == [row.resolves] * len(jobs)


def test_page_of_the_docs_has_these_rows():
    assert (REPOSITORY / "docs/slowness.md").read_text() == slowness_page(), "run `make generate`"
