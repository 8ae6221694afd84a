"""Compare JSON with a golden file: names, types and values, so 1, 1.0 and null differ.

The goldens hold what other programs read. Write them again with `python -m tests.golden.write`, review the difference,
and give the reason for it in the commit. Of the objects of a list, only the first is written whole (`shortened`).
"""

from __future__ import annotations

import difflib
import json
import os
from pathlib import Path
from typing import Any

import zmon
from zmon.agent.sources.process_table import ProcessTable

GOLDEN = Path(__file__).parent
REWRITE = "GOLDEN_REWRITE"  # environment variable: write the golden files instead of comparing
# The keys of times that are measured on a real clock.
ON_A_REAL_CLOCK = ("duration_seconds", "silent_seconds", "monotonic", "since", "import_seconds")
DIGITS = 13  # digits of a float; the others depend on the Python version (3.12 adds floats more exactly than 3.11)
WIDTH = 120  # characters of a line
_COMMAND = "python -m tests.golden.write"


def normalised(value: Any, replaced: dict[str, str], key: str = "") -> Any:
    """Replace values that no test can set: times that threads measure, temporary paths, the version and the user.

    A float above 0 under a key of ON_A_REAL_CLOCK becomes "<measured>", the version of this zmon "<version>", the uid
    of the tests "<uid>", the name of this host's processors "<processors>". In each string the keys of `replaced`, such
    as a temporary folder, become their values. Floats keep DIGITS digits. Other values do not change.
    """
    if isinstance(value, dict):
        return {name: normalised(each, replaced, name) for name, each in value.items()}
    if isinstance(value, list):
        return [normalised(each, replaced, key) for each in value]
    if isinstance(value, float):
        return "<measured>" if value > 0 and key in ON_A_REAL_CLOCK else float(f"{value:.{DIGITS}g}")
    if key == "owner" and value == os.geteuid():
        return "<uid>"
    if key == "version" and value == zmon.__version__:
        return "<version>"
    if key == "device_name" and value == ProcessTable().processors:
        return "<processors>"
    if isinstance(value, str):
        for text, name in replaced.items():
            value = value.replace(text, name)
    return value


def shortened(value: Any) -> Any:
    """Return JSON in which each further object of a list has only the fields that differ from those of the first.

    Such an object has "<absent>" for a field that only the first has, so different lists stay different.
    """
    if isinstance(value, dict):
        return {name: shortened(each) for name, each in value.items()}
    if not isinstance(value, list):
        return value
    items = [*map(shortened, value)]
    if not all(isinstance(item, dict) for item in items):
        return items
    return [*items[:1], *(_differing_fields(item, items[0]) for item in items[1:])]


def _differing_fields(item: dict[str, Any], first: dict[str, Any]) -> dict[str, Any]:
    differing = {
        name: value for name, value in item.items() if name not in first or pretty(value) != pretty(first[name])
    }
    return differing | dict.fromkeys(first.keys() - item.keys(), "<absent>")


def pretty(value: Any, indent: str = "", key: str = "") -> str:
    """Return JSON with sorted keys, in which 1 and 1.0 differ. What fits into a line of WIDTH is not broken.

    `indent` and `key` are those of the value in the object around it.
    """
    line = json.dumps(value, sort_keys=True, ensure_ascii=False)
    if not value or not isinstance(value, dict | list) or len(indent + key + line) < WIDTH:
        return key + line
    deeper = indent + " "
    if isinstance(value, dict):
        items = [pretty(value[name], deeper, f"{json.dumps(name)}: ") for name in sorted(value)]
    else:
        items = [pretty(item, deeper) for item in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return f"{key}{opening}\n" + ",\n".join(deeper + item for item in items) + f"\n{indent}{closing}"


def check_each(values: dict[str, Any]) -> None:
    """Compare each value with the golden of its name; one error lists all that differ."""
    differences = []
    for name, value in values.items():
        try:
            check(name, value)
        except AssertionError as error:
            differences.append(str(error))
    assert not differences, "\n\n".join(differences)


def check(name: str, value: Any) -> None:
    """Compare a JSON value with the golden of that name, or write it."""
    plain = json.loads(json.dumps(value))  # without tuples
    check_text(f"{name}.json", pretty(shortened(plain)) + "\n")


def check_text(name: str, text: str) -> None:
    """Compare a text with the golden file of that name, or write it."""
    path = GOLDEN / name
    if os.environ.get(REWRITE):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return
    golden = path.read_text() if path.exists() else ""
    if text != golden:
        lines = difflib.unified_diff(golden.splitlines(), text.splitlines(), f"golden/{name}", "now", lineterm="", n=2)
        shown = "\n".join([*lines][:60])
        raise AssertionError(f"{name} has changed. If that is on purpose, run {_COMMAND}\n{shown}")
