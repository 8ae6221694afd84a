"""Tests that the code of the dashboard reads answers by their types: without `Any`, and not by string keys."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.places import REPOSITORY

FILES = sorted((REPOSITORY / "dashboards").rglob("*.py"))
TABLE = "a table of pandas or Arrow"
LABELS = "the labels of a Prometheus series: which there are depends on the PromQL"
URL = "the query of a URL"
GRAFANA = "Grafana's JSON, which the dashboard writes"
RULES = "a file of rules, which the dashboard writes"
VEGA = "Vega-Lite, which the dashboard writes"
DICT = "a dict of the same file or of Jinja"
READ_BY_KEY = {  # the expressions that may be read by a string key, with the reason; none is an answer of the hub
    "armed.py": {"os.environ": "environment variables"},
    "http_requests.py": {"response.headers": "headers of HTTP"},
    "address.py": {"params": URL, "changes": "the fields of an Address that change"},
    "alike.py": {"values": TABLE},
    "charts.py": {"values": TABLE, "width": VEGA, "encoding": VEGA},
    "curves.py": {"AXIS_LABEL": "units of axes"},
    "glance.py": {"sample.labels": LABELS, "activity.labels": LABELS, "metrics": DICT},
    "grafana/page.py": {"panel": GRAFANA},
    "grafana/panel.py": {"chart": GRAFANA, "chart['fieldConfig']": GRAFANA},
    "heat.py": {"values": TABLE},
    "history.py": {"frame": TABLE},
    "marks.py": {"rows": TABLE},
    "views/plain_chart.py": {"values": TABLE},
    "queries.py": {"graph": URL, "os.environ": "environment variables"},
    "rules/render.py": {"environment.filters": DICT, "group": RULES, "rule": RULES, "yaml.safe_load(text)": RULES},
    "gpu_time.py": {"sample.labels": LABELS},
    "side.py": {"sample.labels": LABELS},
    "views/evidence.py": {"shown": "JSON for people"},
    "views/frame.py": {"st.session_state": "Streamlit's state of a viewer"},
    "views/hosts.py": {"sample.labels": LABELS},
    "views/panel.py": {
        "sample.labels": LABELS,
        "table": TABLE,
        "tables[charts.MARKS]": TABLE,
        "values": TABLE,
        "values.groupby('series')": TABLE,
    },
    "views/scaling.py": {"table": TABLE},
    "views/tiles.py": {"STATES": "colours"},
    "views/time_bar.py": {"sample.labels": LABELS},
}


def path_in_dashboards(file: Path) -> str:
    return file.relative_to(REPOSITORY / "dashboards").as_posix()


def is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def read_by_key(tree: ast.AST) -> Iterator[str]:
    """Yield the expressions that are read by a string key: `answer["jobs"]`, `answer.get("jobs")`."""
    for node in ast.walk(tree):
        match node:
            case ast.Subscript(value=value, slice=key) if is_text(key):
                yield ast.unparse(value)
            case ast.Call(func=ast.Attribute(value=value, attr="get" | "pop" | "setdefault"), args=[key, *_]):
                if is_text(key):
                    yield ast.unparse(value)


@pytest.mark.parametrize("file", FILES, ids=path_in_dashboards)
def test_file_does_not_use_any(file):
    """Check signatures, aliases, fields and annotations in quotes."""
    nodes = list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
    imported = {alias.name for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names}
    identifiers = {node.id for node in nodes if isinstance(node, ast.Name)}
    identifiers |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    quoted = {node.value for node in nodes if isinstance(node, ast.Constant)}
    assert "Any" not in imported | identifiers | quoted


@pytest.mark.parametrize("file", FILES, ids=path_in_dashboards)
def test_expressions_read_by_key_are_those_of_the_list(file):
    """A new expression must be in the list with its reason, or become an attribute of a type."""
    expressions = set(read_by_key(ast.parse(file.read_text(encoding="utf-8"))))
    assert expressions == set(READ_BY_KEY.get(path_in_dashboards(file), {}))


@pytest.mark.parametrize("line", ['answer["jobs"]', 'answer.get("jobs")', 'hub.jobs().pop("jobs", None)'])
def test_check_detects_answer_that_is_read_by_key(line):
    assert list(read_by_key(ast.parse(line)))
