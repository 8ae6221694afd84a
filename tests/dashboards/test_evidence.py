"""Tests of `EvidenceView`. Stacks are separate from the other fields, and an empty stack has a reason."""

import json

from dashboards.views.evidence import EvidenceView, stack_text
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
