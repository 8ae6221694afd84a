"""Check the words of the code: names that say nothing, docstrings that do not begin with a statement.

`make check` runs it over every Python file of the repository; one line for each problem, as linters print them.
CONTRIBUTING.md gives the reasons. Ruff's rules D205 and D400 check the form of docstrings.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

NAMES = frozenset(("asked", "found", "here", "kept", "said", "seen", "told"))  # a noun says what the value is
OPENINGS = frozenset(
    "And As Because By How Of Or So That Those What Where Whether Which Who Whoever Whose Why".split()  # noqa: SIM905
)

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class Problem(NamedTuple):
    """One problem and the line it is in."""

    line: int
    text: str


def problems(source: str) -> Iterator[Problem]:
    """Yield the problems of one file. Raises SyntaxError."""
    for node in ast.walk(ast.parse(source)):
        for name in _bound(node):
            if name.strip("_") in NAMES:
                yield Problem(node.lineno, f"`{name}` does not say what it names: use a noun")  # type: ignore[attr-defined]
        if isinstance(node, ast.Module | Definition):
            opening = re.match(r"\w+", ast.get_docstring(node) or "")
            if opening and opening[0] in OPENINGS:
                line = node.body[0].lineno
                yield Problem(line, f"the docstring begins with “{opening[0]}”: begin with a statement")


def shared_classes(sources: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Return the public classes that more than one of these files (path, source) defines, with the paths."""
    paths = defaultdict(list)
    for path, source in sources:
        for node in ast.parse(source).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                paths[node.name].append(path)
    return {name: where for name, where in paths.items() if len(where) > 1}


def _bound(node: ast.AST) -> tuple[str, ...]:
    """Return the names that a node gives to something."""
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
            return (name,)
        case ast.arg(arg=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return (name,)
        case _:
            return ()


def main() -> int:
    """Print every problem; return 1 if there is one."""
    paths = subprocess.run(["git", "ls-files", "*.py"], check=True, capture_output=True, text=True).stdout.split()
    sources = {path: Path(path).read_text() for path in paths if Path(path).exists()}
    lines = [f"{path}:{line}: {text}" for path, source in sources.items() for line, text in sorted(problems(source))]
    watched = ((path, source) for path, source in sources.items() if path.startswith("zmon/"))
    for name, paths in shared_classes(watched).items():
        lines.append(f"{paths[0]}: the class `{name}` is also in {', '.join(paths[1:])}: give each its own name")
    print("\n".join(lines) or f"{len(sources)} files: no problem")
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main())
