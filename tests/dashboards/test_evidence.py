"""Is evidence of any shape shown, and none of it lost?"""

import json

import pytest

from dashboards.views import evidence
from tests.dashboards.world import STALL, changed, text


def test_stacks_are_read_and_all_else_is_shown_as_it_came():
    known = evidence.read(
        {"by": "the kernel", "stacks": {"1": {"stack": "line 7", "wchan": "x"}, "2": {}}, "ranks": []}
    )
    assert {rank: stack.text for rank, stack in known.stacks.items()} == {
        "1": "line 7",
        "2": "no stack: its agent tells none",
    }
    assert known.with_stacks == ["1"]
    assert known.fields == ("by", "ranks", "stacks")
    assert json.loads(known.as_json(())) == {"by": "the kernel", "ranks": []}


@pytest.mark.parametrize("stacks", ["none", [1], {"1": "line 7"}])
def test_stacks_of_another_shape_are_shown_as_they_came(opened, world, stacks):
    assert json.loads(evidence.read({"stacks": stacks}).as_json(())) == {"stacks": stacks}
    world.findings = [changed(STALL, evidence={"stacks": stacks})]
    assert "stacks" in text(opened("job", job_id="ads"))


@pytest.mark.parametrize("ranks", ["all", 3, None, {"0": {}}])
def test_ranks_of_another_shape_are_shown_as_they_came(ranks):
    assert json.loads(evidence.read({"ranks": ranks}).as_json((0,))) == {"ranks": ranks}
