"""Tests of docs/http.md: its Python reads the steps of a snapshot, and its tables have every parameter."""

import json
import re

import msgspec
import pytest

from tests.build import JOB, agent_report, rank_state, step_record
from tests.places import REPOSITORY
from zmon.schema.api import endpoints

PAGE = (REPOSITORY / "docs/http.md").read_text()
OPTIONS = {  # what may follow the path of a request, by that path
    path.replace("<", "{").replace(">", "}"): options
    for path, options in re.findall(r"^\| `GET (/[^`\[]*)([^`]*)` \|", PAGE, re.MULTILINE)
}
JSON_OF_GET = [each for each in (*endpoints.AGENT, *endpoints.HUB) if each.method == "GET"]


def test_code_on_the_page_reads_each_column_of_the_steps_in_a_snapshot():
    records = {"uid-0": [step_record(step, {"forward": 0.01 * step}, samples=None) for step in (1, 2, 900)]}
    report = agent_report(rank_state(0), records={JOB: records})
    (part,) = json.loads(msgspec.json.encode(report))["steps"][JOB]
    code, *_ = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    scope = {}
    exec(code, scope)
    steps = report.steps[JOB][0]
    assert {name: scope["column"](part, name) for name in part["columns"]} == {
        name: [*steps.column(name)] for name in steps.columns
    }
    assert scope["column"](part, "step") == [1, 2, 900]


@pytest.mark.parametrize("endpoint", JSON_OF_GET, ids=lambda endpoint: endpoint.path)
def test_table_has_each_parameter_of_an_endpoint(endpoint):
    options = OPTIONS[endpoint.path.removesuffix("/{id}")]
    in_path = re.findall(r"{(\w+)}", endpoint.path)
    parameters = {name for name in endpoint.request.__struct_fields__ if name not in in_path}
    in_text = set(re.findall(r"`(known)` is", PAGE))  # only with a header that the page describes
    assert {name for name in parameters - in_text if not re.search(rf"\b{name}=", options)} == set()
