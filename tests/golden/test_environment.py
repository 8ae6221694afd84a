"""Test that compares the environment variables that people set with their golden list.

A new variable is allowed: write the golden again. The removal of a variable breaks the jobs and units that set it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.golden.compare import check_text

PROJECT = Path(__file__).parents[2]
PACKAGES = ("zmon", "trainer", "dashboards", "lab")
NAME = re.compile(r"ZMON_[A-Z_]+")
IN_C = re.compile(r'getenv\("(ZMON_[A-Z_]+)"\)')


def names() -> Iterator[str]:
    """Yield each string in the sources that is the name of a variable and nothing else."""
    for package in PACKAGES:
        for path in (PROJECT / package).rglob("*.py"):
            text = path.read_text()
            for node in ast.walk(ast.parse(text)) if "ZMON_" in text else ():
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and NAME.fullmatch(node.value):
                    yield node.value
        for path in (PROJECT / package).rglob("*.c"):
            yield from IN_C.findall(path.read_text())


def test_environment_variables_are_the_golden_list():
    check_text("environment.txt", "".join(f"{name}\n" for name in sorted(set(names()))))
