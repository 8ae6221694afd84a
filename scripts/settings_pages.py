"""The pages of settings: the thresholds of detectors and leases, and the keys of the trainer.

Both are made from dataclasses. The meaning of a field is the comment beside it.
"""

import ast
import inspect
import io
import tokenize
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from itertools import takewhile
from textwrap import wrap

import yaml

from scripts.imports import PROJECT
from trainer.scale.config import RunConfig
from trainer.scale.presets import demo
from zmon.detectors import ALL
from zmon.job.lease import Leases
from zmon.schema.thresholds import Range, ranges

THRESHOLDS_HEAD = """\
# Thresholds

This page lists every threshold of the detectors and every lease, with its default and its reason, and says how to
change them. `make generate` makes it from `zmon/detectors/` and `zmon/job/lease.py`.

The hub reads the thresholds of the detectors when it starts, and `zmon analyze` uses the same ones. Each
agent reads the leases. Put changed values into the file of `zmon --config FILE`:

```yaml
hub:
  detectors:
    straggler: {slower_ratio: 0.3}
agent:
  leases: {eval_seconds: 3600}
```

You can also pass them with `--detectors` and `--leases`, or in `ZMON_DETECTORS` and `ZMON_LEASES`, as YAML
in one line, such as `{straggler: {slower_ratio: 0.3}}`. The hub and the agent of `zmon up` and `zmon demo`
read the file of `zmon --config FILE up`, or the file that `ZMON_CONFIG` names. If a name does not exist or a
value is out of its range, the command prints one line and exits with code 2.

Each line begins with the default. A ratio is a plain number: 0.2 means 20 %. A value must be more than 0,
unless its line has another range. [runbooks.md](runbooks.md) describes the findings.
"""
USUAL_RANGE = str(Range())  # of most thresholds: the head of their page says it once
# By the end of the name of a threshold. After another name, the last word of the name is the unit.
UNITS = {"_per_second": "per second", "_seconds": "s", "_ratio": "", "_multiple": "", "_steps_of_spread": "steps"}
KEYS_HEAD = """\
# Keys of the trainer

This page lists all keys of the [bundled trainer](trainer.md). Set a key with `--set a.b=c` or in a YAML file for
`--config`. Defaults are those of the preset `demo`. `make generate` makes this page from the dataclasses of `trainer/`.
"""


def thresholds_page() -> str:
    """Return the page of all thresholds, with default, unit, range and meaning."""
    holders = [*((f"detectors.{detector.name}", type(detector)) for detector in ALL), ("leases", Leases)]
    lines = [f"{line}\n" for key, cls in holders for line in _thresholds(key, cls)]
    return "".join([THRESHOLDS_HEAD, *lines])


def _thresholds(key: str, cls: type) -> Iterator[str]:
    """Yield the lines of the section of a dataclass. Its fields may be defined in its base classes."""
    definitions = [base for base in reversed(cls.__mro__) if is_dataclass(base)]
    comments = {base: field_comments(base) for base in definitions}
    meanings = {name: text for texts in comments.values() for name, text in texts.items()}
    sources = [inspect.getsourcefile(base) for base in definitions if comments[base]]
    files = dict.fromkeys(source.removeprefix(f"{PROJECT}/") for source in sources)
    yield from ("", f"## {key}", "", ", ".join(f"`{file}`" for file in files), "")
    for field in fields(cls):
        limits = str(ranges(cls)[field.name])
        unusual = "" if limits == USUAL_RANGE else f", {limits}"
        line = f"- `{field.name}`: **{amount(field.name, field.default)}**{unusual}. {meanings[field.name]}"
        yield from wrap(line, width=120, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def amount(name: str, value: float) -> str:
    """Return the value of a threshold with the unit of its name. A rate below 1 per second is shown per minute."""
    if name.endswith("_per_second") and value < 1:
        return f"{value * 60:,g} per minute"
    unit = next((unit for suffix, unit in UNITS.items() if name.endswith(suffix)), name.rpartition("_")[2])
    return f"{value:,g} {unit}".rstrip()


def keys_page() -> str:
    """Return the page of all keys of the trainer, with default and meaning."""
    return "".join([KEYS_HEAD, *(line for section in fields(RunConfig) for line in _keys_of_section(section.name))])


def _keys_of_section(name: str) -> Iterator[str]:
    section = getattr(demo(), name)
    file = inspect.getsourcefile(type(section)).removeprefix(f"{PROJECT}/")
    yield f"\n## {name}\n\n`{file}`\n\n| key | default | meaning |\n|---|---|---|\n"
    yield from _key_rows(section, name)


def _key_rows(section: object, name: str) -> Iterator[str]:
    """Yield a row for each key of a section, and of the sections in it."""
    comments = field_comments(type(section))
    for field in fields(section):
        value = getattr(section, field.name)
        if is_dataclass(value):
            yield from _key_rows(value, f"{name}.{field.name}")
            continue
        value = list(value) if isinstance(value, tuple) else value
        default = yaml.safe_dump(value, default_flow_style=True, width=10**6).removesuffix("...\n").strip()
        yield f"| `{name}.{field.name}` | `{default}` | {comments[field.name]} |\n"


def field_comments(cls: type) -> dict[str, str]:
    """Return the comment of each field: on its lines, or else on the lines directly above it."""
    source = inspect.getsource(cls)
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = {token.start[0]: token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT}
    comment_lines = {number for number, line in enumerate(source.splitlines(), 1) if line.lstrip().startswith("#")}
    [body] = ast.parse(source).body
    texts = {}
    for node in body.body:
        if isinstance(node, ast.AnnAssign):
            beside = [number for number in range(node.lineno, node.end_lineno + 1) if number in comments]
            above = list(takewhile(comment_lines.__contains__, range(node.lineno - 1, 0, -1)))[::-1]
            texts[node.target.id] = " ".join(comments[number] for number in beside or above)
    return texts
