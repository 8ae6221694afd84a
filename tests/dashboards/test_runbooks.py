"""Tests of `runbook`, which returns the section of docs/runbooks.md that a page shows beside a finding."""

from __future__ import annotations

import re

from dashboards.views.finding import runbook
from tests.places import REPOSITORY

CAUSES = re.findall(r"^## ([a-z_]+)$", (REPOSITORY / "docs/runbooks.md").read_text(), re.MULTILINE)


def test_runbook_of_cause_contains_no_other_heading() -> None:
    sections = {cause: runbook(f"docs/runbooks.md#{cause}") for cause in CAUSES}
    assert len(sections) > 20
    assert not [cause for cause, section in sections.items() if re.search("^#", section, re.MULTILINE)]


def test_missing_runbook_is_shown_as_reference() -> None:
    assert runbook("docs/runbooks.md#no_such_cause") == "See `docs/runbooks.md#no_such_cause` in the project."
