"""Generates docs/slowness.md from the rows that tests/detectors/slow/test_table.py judges."""

from __future__ import annotations

from collections.abc import Iterator

from scripts.endings_page import cause_text
from tests.detectors.slow.case import Case, Section
from tests.detectors.slow.table import SECTIONS

HEAD = """\
# How a job can lose time

This page lists what zmon reports, and what it does not report, about jobs that make steps and lose time.
[runbooks.md](runbooks.md) says what to do about each cause, and [thresholds.md](thresholds.md) has the thresholds.

The first table of a section lists jobs and the finding about each: *quiet* means that there is none, `unknown` is a
finding without a cause. The second table says what happens to a finding that is open: it stays open, or it may resolve.

A *young* job has made too few steps to exclude chance. Steps are *uneven* if their durations vary at random. Of fast
steps, only some are *sampled*: the hub asks for no others ([ADR 17](adr/0017-hub-asks-for-some-steps.md)).

`make generate` makes this page from `tests/detectors/slow/table.py`: each row is a test.
"""


def slowness_page() -> str:
    """Return docs/slowness.md."""
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
