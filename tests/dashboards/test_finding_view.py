"""Tests of what a page shows beside a finding: its evidence, its stacks, and the section of docs/runbooks.md."""

import json
import re

from dashboards.views.evidence import EvidenceView, stack_text
from dashboards.views.finding import runbook
from tests.places import REPOSITORY
from zmon.schema.evidence import StallEvidence
from zmon.schema.gathered import RankStack


def test_evidence_view_separates_stacks_from_other_fields():
    stacks = {"1": RankStack(stack="line 7", wchan="x"), "2": RankStack()}
    view = EvidenceView(StallEvidence(out_of_memory="the kernel", stacks=stacks, ranks=(), exit_status=None))
    assert {rank: stack_text(stack) for rank, stack in view.stacks.items()} == {
        "1": "line 7",
        "2": "no stack: its agent reports none",
    }
    assert view.with_stacks == ["1"]
    assert view.fields == ("exit_status", "out_of_memory", "ranks", "stacks")
    assert json.loads(view.as_json()) == {"out_of_memory": "the kernel", "ranks": [], "exit_status": None}


def test_evidence_view_without_stacks_is_empty():
    view = EvidenceView(StallEvidence(stacks={}))
    assert (view.stacks, view.with_stacks, view.fields) == ({}, [], ("stacks",))
    assert json.loads(view.as_json()) == {}


CAUSES = re.findall(r"^## ([a-z_]+)$", (REPOSITORY / "docs/runbooks.md").read_text(), re.MULTILINE)


def test_runbook_of_cause_contains_no_other_heading():
    sections = {cause: runbook(f"docs/runbooks.md#{cause}") for cause in CAUSES}
    assert len(sections) > 20
    assert not [cause for cause, section in sections.items() if re.search("^#", section, re.MULTILINE)]


def test_missing_runbook_is_shown_as_reference():
    assert runbook("docs/runbooks.md#no_such_cause") == "See `docs/runbooks.md#no_such_cause` in the project."
