"""The generator of documents, rules, examples and Grafana dashboards; `make check` fails if one is out of date."""

from __future__ import annotations

import ast
import inspect
import io
import json
import tokenize
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from itertools import takewhile
from pathlib import Path
from textwrap import wrap

import yaml

from dashboards import generator, grafana, rules
from dashboards.intervals import CLUSTER, ONE_MACHINE
from dashboards.rules.render import rendered
from scripts import alertmanager, imports, package_table
from scripts.endings_page import endings_page
from scripts.failures_page import failures_page
from scripts.frameworks_page import frameworks_page
from scripts.hangs_page import hangs_page
from scripts.openapi import openapi
from scripts.slowness_page import slowness_page
from trainer.scale.config import RunConfig
from trainer.scale.presets import demo
from zmon.detectors import ALL
from zmon.job.lease import Leases
from zmon.metrics import SPECS, STEP_HISTOGRAM, STEP_SECONDS_BOUNDS
from zmon.schema.measures import MEASURES
from zmon.schema.thresholds import Range, ranges

DOCS = Path(__file__).parents[1] / "docs"
GRAFANA = Path(grafana.__file__).parent
RULES = Path(rules.__file__).parent
CHART = DOCS.parent / "helm" / "zmon" / "files"
ALERTMANAGER = DOCS.parent / "deploy" / "alertmanager"
USUAL_RANGE = str(Range())  # of most thresholds; their page says it once, in its head
SUBJECTS = {  # the headings of the page of metrics, each by its first metric in the order of SPECS
    "zmon_rank_info": "Ranks, from agents",
    "zmon_nic_receive_bytes_total": "Links, from agents",
    "zmon_gpu_info": "GPUs, from agents",
    "zmon_host_cpu_seconds_total": "Hosts, from agents",
    "zmon_cgroup_memory_used_bytes": "Control groups, from agents",
    "zmon_held_gpus": "GPUs that are held, from agents",
    "zmon_tcp_retransmitted_segments_total": "TCP and storage, from agents",
    "zmon_source_up": "The agent and its sources",
    "zmon_jobs_left_out": "Each daemon",
    "zmon_job_info": "Jobs, from hubs",
    "zmon_finding": "Findings and the hub",
}


def metrics_page() -> str:
    """Return the page of all metrics with type, labels and help text."""
    head = [
        "# Metrics",
        "",
        "Generated from `zmon/metrics/names.py` and `zmon/schema/measures.py` by `make generate`. All values are in",
        "base units. An unknown value has no series; it is never 0. The agent exports the ranks of the newest attempt",
        "of a job, until 30 s after its end. The hub exports jobs and findings.",
    ]
    histogram = [
        "",
        "## Duration of steps, from hubs",
        "",
        f"The histogram `{STEP_HISTOGRAM}` counts the steps of each job (label `job_id`) by their duration.",
        f"The upper bounds of its buckets are 1 ms × 2^k, k = 0 … {len(STEP_SECONDS_BOUNDS) - 1}.",
    ]
    return "\n".join([*head, *_metrics(), *histogram, *_measures()]) + "\n"


def _metrics() -> Iterator[str]:
    """Yield the lines of the tables of metrics, one for each subject."""
    for name, spec in SPECS.items():
        if name in SUBJECTS:
            yield from ("", f"## {SUBJECTS[name]}", "", "| metric | type | labels | meaning |", "|---|---|---|---|")
        yield f"| `{name}` | {spec.kind} | {', '.join(f'`{label}`' for label in spec.labels)} | {spec.help} |"


def _measures() -> Iterator[str]:
    """Yield the lines of the table of measures."""
    yield from (
        "",
        "## Measures",
        "",
        "The values that are counted in a step of a rank. The step log, and `totals` in a snapshot, have the same",
        "columns; {} is a phase or an op. The value in a step is one of these:",
        "",
        "- *difference*: the difference of the totals at the two ends of the step",
        "- *last*: the total at the end of the step",
        "- *own*: a number that the job or the probe gives for this step; without it, the value is unknown",
        "",
        "| measure | unit | column | in a step | metric |",
        "|---|---|---|---|---|",
    )
    for measure in MEASURES:
        column, metric = (f"`{name}`" if name else "" for name in (measure.column, measure.metric))
        yield f"| {measure.name} | {measure.unit or 'count'} | {column} | {measure.of_step} | {metric} |"


def keys_page() -> str:
    """Return the page of all keys of the trainer, with default and meaning."""
    head = [
        "# Keys of the trainer",
        "",
        "Generated from the dataclasses of `trainer/` by `make generate`. Defaults are those of the preset `demo`.",
        "Set a key with `--set a.b=c` or in a YAML file for `--config`; see [trainer.md](trainer.md).",
    ]
    return "\n".join([*head, *(line for section in fields(RunConfig) for line in _section(section.name))]) + "\n"


def thresholds_page() -> str:
    """Return the page of all thresholds of detectors and leases, with default, unit, range and meaning."""
    head = [
        "# Thresholds",
        "",
        "Generated from the dataclasses of `zmon/detectors/` and `zmon/job/lease.py` by `make generate`.",
        "",
        "The hub reads the thresholds of the detectors when it starts, and `zmon analyze` uses the same ones. Each",
        "agent reads the leases. Put changed values into the file of `zmon --config FILE`:",
        "",
        "```yaml",
        "hub:",
        "  detectors:",
        "    straggler: {slower_ratio: 0.3}",
        "agent:",
        "  leases: {eval_seconds: 3600}",
        "```",
        "",
        "You can also pass them with `--detectors` and `--leases`, or in `ZMON_DETECTORS` and `ZMON_LEASES`, as YAML",
        "in one line, such as `{straggler: {slower_ratio: 0.3}}`. The hub and the agent of `zmon up` and `zmon demo`",
        "read the file of `zmon --config FILE up`, or the file that `ZMON_CONFIG` names. If a name does not exist or a",
        "value is out of its range, the command prints one line and exits with code 2.",
        "",
        "Each line begins with the default. A ratio is a plain number: 0.2 means 20 %. A value must be more than 0,",
        "unless its line has another range. [runbooks.md](runbooks.md) describes the findings.",
    ]
    holders = [(f"detectors.{detector.name}", type(detector)) for detector in ALL]
    sections = [line for key, cls in [*holders, ("leases", Leases)] for line in _thresholds(key, cls)]
    return "\n".join([*head, *sections]) + "\n"


def architecture_page(page: str) -> str:
    """Return the page of the architecture with new tables of packages and imports, which lie between two comments.

    Raises ValueError if the page has no such comments.
    """
    for source, table in (("the docstrings", package_table.table()), ("scripts/imports.py", imports.table())):
        before, begin, rest = page.partition(f"<!-- the table of {source}, written by make generate -->\n")
        _, end, after = rest.partition("<!-- end of the table -->\n")
        if not end:
            raise ValueError(f"docs/architecture.md has no place for the table of {source}")
        page = f"{before}{begin}{table}\n{end}{after}"
    return page


def _thresholds(key: str, cls: type) -> Iterator[str]:
    meanings = {
        name: text for base in reversed(cls.__mro__) if is_dataclass(base) for name, text in _comments(base).items()
    }
    definitions = [base for base in reversed(cls.__mro__) if is_dataclass(base) and _comments(base)]
    files = dict.fromkeys(inspect.getsourcefile(base).removeprefix(f"{DOCS.parent}/") for base in definitions)
    yield from ("", f"## {key}", "", ", ".join(f"`{file}`" for file in files), "")
    for field in fields(cls):
        limits = str(ranges(cls)[field.name])
        unusual = "" if limits == USUAL_RANGE else f", {limits}"
        line = f"- `{field.name}`: **{amount(field.name, field.default)}**{unusual}. {meanings[field.name]}"
        yield from wrap(line, width=120, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def amount(name: str, value: float) -> str:
    """Return the value of a threshold with its unit, which the end of its name says. A ratio has none.

    A rate below 1 per second is shown per minute.
    """
    if name.endswith("_per_second") and value < 1:
        return f"{value * 60:,g} per minute"
    units = {"_per_second": "per second", "_seconds": "s", "_ratio": "", "_multiple": "", "_steps_of_spread": "steps"}
    unit = next((unit for suffix, unit in units.items() if name.endswith(suffix)), name.rpartition("_")[2])
    return f"{value:,g} {unit}".rstrip()


def _section(name: str) -> Iterator[str]:
    section = getattr(demo(), name)
    yield from ("", f"## {name}", "", f"`{inspect.getsourcefile(type(section)).removeprefix(f'{DOCS.parent}/')}`", "")
    yield from ("| key | default | meaning |", "|---|---|---|")
    yield from _keys(section, name)


def _keys(section: object, name: str) -> Iterator[str]:
    comments = _comments(type(section))
    for field in fields(section):
        value = getattr(section, field.name)
        if is_dataclass(value):
            yield from _keys(value, f"{name}.{field.name}")
            continue
        value = list(value) if isinstance(value, tuple) else value
        default = yaml.safe_dump(value, default_flow_style=True, width=10**6).removesuffix("...\n").strip()
        yield f"| `{name}.{field.name}` | `{default}` | {comments[field.name]} |"


def _comments(section: type) -> dict[str, str]:
    """Return the comment of each field: on its lines, or else on the lines directly above it."""
    source = inspect.getsource(section)
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = {token.start[0]: token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT}
    alone = {number for number, line in enumerate(source.splitlines(), 1) if line.lstrip().startswith("#")}
    [body] = ast.parse(source).body
    texts = {}
    for node in body.body:
        if isinstance(node, ast.AnnAssign):
            beside = [number for number in range(node.lineno, node.end_lineno + 1) if number in comments]
            above = list(takewhile(alone.__contains__, range(node.lineno - 1, 0, -1)))[::-1]
            texts[node.target.id] = " ".join(comments[number] for number in beside or above)
    return texts


if __name__ == "__main__":
    page = DOCS / "architecture.md"
    page.write_text(architecture_page(page.read_text()))
    (DOCS / "endings.md").write_text(endings_page())
    (DOCS / "failures.md").write_text(failures_page())
    (DOCS / "frameworks.md").write_text(frameworks_page())
    (DOCS / "hangs.md").write_text(hangs_page())
    (DOCS / "slowness.md").write_text(slowness_page())
    (DOCS / "metrics.md").write_text(metrics_page())
    (DOCS / "thresholds.md").write_text(thresholds_page())
    (DOCS / "trainer-keys.md").write_text(keys_page())
    (DOCS / "openapi.json").write_text(json.dumps(openapi(), indent=1, ensure_ascii=False) + "\n")
    generator.write(alertmanager.examples(), ALERTMANAGER)
    generator.write(rendered(ONE_MACHINE), RULES)
    generator.write(grafana.rendered(ONE_MACHINE), GRAFANA)
    generator.write(rendered(CLUSTER), CHART / "rules")
    generator.write(grafana.rendered(CLUSTER), CHART / "grafana")
