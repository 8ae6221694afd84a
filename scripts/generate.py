"""Writes the pages and Grafana dashboards that follow from the code; `make check` fails where one is out of date."""

from __future__ import annotations

import ast
import inspect
import io
import json
import tokenize
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path

import yaml

from dashboards import grafana
from scripts.openapi import openapi
from trainer.config import Config
from trainer.presets import demo
from zmon.detectors import ALL
from zmon.job.lease import Leases
from zmon.metrics import SPECS, STEP_HISTOGRAM
from zmon.schema.thresholds import ranges

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


def thresholds_page() -> str:
    """Every threshold of the detectors and the leases with its default, unit, range and reason."""
    head = [
        "# Thresholds",
        "",
        "Generated from the dataclasses of `zmon/detectors/` and `zmon/job/lease.py` by `make generate`.",
        "",
        "The hub reads those of the detectors when it starts, and `zmon analyze` judges a log by the same; each agent",
        "reads the leases. Write those that your site needs to be different into the file of `zmon --config FILE`:",
        "",
        "```yaml",
        "hub:",
        "  detectors:",
        "    straggler: {slower_ratio: 0.3}",
        "agent:",
        "  leases: {eval_seconds: 3600}",
        "```",
        "",
        "or as `--detectors` and `--leases`, or in `ZMON_DETECTORS` and `ZMON_LEASES`: there the mapping is YAML in",
        "one line, such as `{straggler: {slower_ratio: 0.3}}`. The hub and the agent of `zmon up` and `zmon demo` read",
        "the file that `ZMON_CONFIG` names. A name that does not exist, or a value out of its range, ends the command",
        "with exit code 2 and one line.",
    ]
    holders = [(f"detectors.{detector.name}", type(detector)) for detector in ALL]
    sections = [line for key, cls in [*holders, ("leases", Leases)] for line in _thresholds(key, cls)]
    return "\n".join([*head, *sections]) + "\n"


def _thresholds(key: str, cls: type) -> Iterator[str]:
    reasons = {
        name: reason for base in reversed(cls.__mro__) if is_dataclass(base) for name, reason in _comments(base).items()
    }
    file = inspect.getsourcefile(cls).removeprefix(f"{DOCS.parent}/")
    yield from (
        "",
        f"## {key}",
        "",
        f"`{file}`",
        "",
        "| threshold | default | unit | range | reason |",
        "|---|---|---|---|---|",
    )
    for field in fields(cls):
        cells = (
            f"`{field.name}`",
            f"{field.default:g}",
            unit(field.name),
            str(ranges(cls)[field.name]),
            reasons[field.name],
        )
        yield f"| {' | '.join(cells)} |"


def unit(name: str) -> str:
    """What a threshold is counted in, by the end of its name."""
    for end, counted in (("_per_second", "per second"), ("_seconds", "seconds"), ("_ratio", "ratio")):
        if name.endswith(end):
            return counted
    return {"learned_after_stays": "stays", "train_multiple": "ratio", "stay_multiple": "ratio"}.get(name, "steps")


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
    (DOCS / "thresholds.md").write_text(thresholds_page())
    (DOCS / "trainer-keys.md").write_text(keys_page())
    (DOCS / "openapi.json").write_text(json.dumps(openapi(), indent=1, ensure_ascii=False) + "\n")
    for view, dashboard in grafana.dashboards().items():
        (GRAFANA / f"{view}.json").write_text(json.dumps(dashboard, indent=1, ensure_ascii=False) + "\n")
