"""The page of all jobs that move and lose time, from the rows that tests/detectors/slow/test_table.py judges."""

from __future__ import annotations

from collections.abc import Iterator

from scripts.endings_page import cause_text
from tests.detectors.slow.case import Case, Section
from tests.detectors.slow.table import RESOLUTIONS, SECTIONS

HEAD = """\
# How a job can lose time

Generated from `tests/detectors/slow/table.py` by `make generate`. Each row is a test.

The job moves, and loses time in its steps or seems to. Each section has the jobs that a detector reports, with the
finding, and the jobs about which it is quiet. [runbooks.md](runbooks.md) says what to do about each cause, and
[thresholds.md](thresholds.md) has the thresholds. The ranks and hosts are those of the tests.
"""
RESOLUTION_HEAD = """
## When a finding ends

A finding resolves once its detector no longer reports it, and these rows allow it. Otherwise it stays open.

| detector | what happens | the finding |
|---|---|---|
"""


def slowness_page() -> str:
    """Return the page."""
    sections = (line for section in SECTIONS for line in _section(section))
    ends = (
        f"| `{row.detector.name}` | {row.what} | {'may resolve' if row.resolves else 'stays open'} |\n"
        for row in RESOLUTIONS
    )
    return "".join([HEAD, *sections, RESOLUTION_HEAD, *ends])


def _section(section: Section) -> Iterator[str]:
    detector = f"Detector: `{section.detector.name}`. " if section.detector else ""
    yield f"\n## {section.title}\n\n{detector}{section.text}\n\n"
    yield "| what the job does | cause | severity | culprits |\n|---|---|---|---|\n"
    for case in section.cases:
        severity = case.severity if case.cause else "–"
        yield f"| {case.what} | {cause_text(case.cause)} | {severity} | {_culprits(case)} |\n"


def _culprits(case: Case) -> str:
    return ", ".join(each if isinstance(each, str) else f"rank {each}" for each in case.culprits) or "–"
