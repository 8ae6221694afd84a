"""Writes the pages and Grafana dashboards that follow from the code; `make check` fails where one is out of date."""

from __future__ import annotations

import ast
import inspect
import io
import json
import tokenize
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import yaml

from dashboards import grafana
from scripts.openapi import openapi
from trainer.config import Config
from trainer.presets import demo
from zmon.metrics import SPECS, STEP_HISTOGRAM

DOCS = Path(__file__).parents[1] / "docs"
GRAFANA = Path(grafana.__file__).parent


def metrics_page() -> str:
    """Every metric with its type, labels and meaning."""
    rows = [
        f"| `{name}` | {spec.kind} | {', '.join(f'`{label}`' for label in spec.labels)} | {spec.help} |"
        for name, spec in SPECS.items()
    ]
    rows.append(f"| `{STEP_HISTOGRAM}` | histogram | `job_id` | Duration of the job's steps, 1 ms × 2^k, k = 0…16. |")
    head = [
        "# Metrics",
        "",
        "Generated from `zmon/metrics/names.py` by `make generate`. Base units only.",
        "What is unknown has no series, not a 0.",
        "The agent exports the newest attempt of a job, until 30 s after its end; jobs and findings come from the hub.",
        "",
        "| metric | type | labels | what it tells |",
        "|---|---|---|---|",
    ]
    return "\n".join([*head, *rows]) + "\n"


def keys_page() -> str:
    """Every key of the trainer with its default and what its line in the code says of it."""
    head = [
        "# Keys of the trainer",
        "",
        "Generated from the dataclasses of `trainer/` by `make generate`. Defaults are those of the preset `demo`.",
        "Written as `--set a.b=c`, or in a YAML file for `--config`; see [trainer.md](trainer.md).",
    ]
    return "\n".join([*head, *(line for section in fields(Config) for line in _section(section.name))]) + "\n"


def _section(name: str) -> Iterator[str]:
    section = getattr(demo(), name)
    said = _comments(type(section))
    yield from ("", f"## {name}", "", f"`{inspect.getsourcefile(type(section)).removeprefix(f'{DOCS.parent}/')}`", "")
    yield from ("| key | default | |", "|---|---|---|")
    for field in fields(section):
        value = getattr(section, field.name)
        value = list(value) if isinstance(value, tuple) else value
        default = yaml.safe_dump(value, default_flow_style=True, width=10**6).removesuffix("...\n").strip()
        yield f"| `{name}.{field.name}` | `{default}` | {said[field.name]} |"


def _comments(section: type) -> dict[str, str]:
    """Of each field the comment on its lines."""
    source = inspect.getsource(section)
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = {token.start[0]: token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT}
    [body] = ast.parse(source).body
    return {
        node.target.id: " ".join(comments[n] for n in range(node.lineno, node.end_lineno + 1) if n in comments)
        for node in body.body
        if isinstance(node, ast.AnnAssign)
    }


if __name__ == "__main__":
    (DOCS / "metrics.md").write_text(metrics_page())
    (DOCS / "trainer-keys.md").write_text(keys_page())
    (DOCS / "openapi.json").write_text(json.dumps(openapi(), indent=1, ensure_ascii=False) + "\n")
    for view, dashboard in grafana.dashboards().items():
        (GRAFANA / f"{view}.json").write_text(json.dumps(dashboard, indent=1, ensure_ascii=False) + "\n")
