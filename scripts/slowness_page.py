"""Generates docs/slowness.md from the rows that tests/detectors/slow/test_table.py judges."""

from __future__ import annotations

from collections.abc import Iterator

from scripts.endings_page import cause_text
from tests.detectors.slow.case import Case, Section
from tests.detectors.slow.table import SECTIONS

HEAD = """\
# How a job can lose time

Generated from `tests/detectors/slow/table.py` by `make generate`. Each row is a test.

This page is about jobs that move and lose time in their steps, or seem to. Each section but the last is about one
detector. Its first table lists jobs and the finding about each: *quiet* is none, `unknown` is a finding without a
cause. A finding resolves once the detector no longer reports it. The second table of a section lists events that keep
the finding open all the same, and events that do not.

A *young* job has made too few steps to exclude chance. Steps are *uneven* if their durations vary at random. Of fast
steps, only some are *sampled*: the hub asks for no others ([ADR 17](adr/0017-hub-asks-for-some-steps.md)).

[runbooks.md](runbooks.md) says what to do about each cause, and [thresholds.md](thresholds.md) has the thresholds.
The ranks and hosts are those of the tests.
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
