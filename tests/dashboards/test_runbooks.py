"""The section of the runbooks that the page of a finding shows."""

from __future__ import annotations

import re

from dashboards.views.finding import runbook
from tests.places import REPOSITORY

CAUSES = re.findall(r"^## ([a-z_]+)$", (REPOSITORY / "docs/runbooks.md").read_text(), re.MULTILINE)


def test_runbook_of_a_cause_is_its_section_alone() -> None:
    sections = {cause: runbook(f"docs/runbooks.md#{cause}") for cause in CAUSES}
    assert len(sections) > 20
    assert not [cause for cause, section in sections.items() if re.search("^#", section, re.MULTILINE)]


def test_runbook_that_does_not_exist_is_a_reference() -> None:
    assert runbook("docs/runbooks.md#no_such_cause") == "See `docs/runbooks.md#no_such_cause` in the project."
