"""Tests that the Python in docs/http.md reads the steps of a snapshot."""

import json
import re

import msgspec

from tests.build import JOB, agent_report, rank_state, step_record
from tests.places import REPOSITORY


def test_code_on_the_page_reads_each_column_of_the_steps_in_a_snapshot():
    records = {"uid-0": [step_record(step, {"forward": 0.01 * step}, samples=None) for step in (1, 2, 900)]}
    report = agent_report(rank_state(0), records={JOB: records})
    (part,) = json.loads(msgspec.json.encode(report))["steps"][JOB]
    code, *_ = re.findall(r"```python\n(.*?)```", (REPOSITORY / "docs/http.md").read_text(), re.DOTALL)
    scope = {}
    exec(code, scope)
    steps = report.steps[JOB][0]
    assert {name: scope["column"](part, name) for name in part["columns"]} == {
        name: [*steps.column(name)] for name in steps.columns
    }
    assert scope["column"](part, "step") == [1, 2, 900]
