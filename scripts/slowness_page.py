"""The page of all jobs that move and lose time, from the rows that tests/detectors/slow/test_table.py judges."""

from __future__ import annotations

from collections.abc import Iterator

from scripts.endings_page import cause_text
from tests.detectors.slow.case import Case, Section
from tests.detectors.slow.table import SECTIONS

HEAD = """\
# How a job can lose time

Generated from `tests/detectors/slow/table.py` by `make generate`. Each row is a test.

The job moves and loses time in its steps, or seems to lose time. Each section is about one detector. Its first table
has the jobs that the detector reports, with the finding, and the jobs about which it is quiet. Its second table says
what keeps a finding open. A finding resolves once the detector no longer reports it, unless an event of that table
keeps it open.

[runbooks.md](runbooks.md) says what to do about each cause, and [thresholds.md](thresholds.md) has the thresholds.
The ranks and hosts are those of the tests.
"""


def slowness_page() -> str:
    """Return the page."""
    return "".join([HEAD, *(line for section in SECTIONS for line in _section(section))])


def _section(section: Section) -> Iterator[str]:
    detector = f"Detector: `{section.detector.name}`. " if section.detector else ""
    yield f"\n## {section.title}\n\n{detector}{section.text}\n\n"
    yield "| what the job does | cause | severity | culprits |\n|---|---|---|---|\n"
    for case in section.cases:
        severity = case.severity if case.cause else "–"
        yield f"| {case.what} | {cause_text(case.cause)} | {severity} | {_culprits(case)} |\n"
    if section.resolutions:
        yield "\n| what happens while a finding is open | the finding |\n|---|---|\n"
    for row in section.resolutions:
        yield f"| {row.what} | {'may resolve' if row.resolves else 'stays open'} |\n"


def _culprits(case: Case) -> str:
    return ", ".join(culprit if isinstance(culprit, str) else f"rank {culprit}" for culprit in case.culprits) or "–"
