"""Check the words of the code: `python -m scripts.words`, which `make check` runs. It prints a line for each problem.

A problem is a name that says nothing, a docstring that does not begin with a statement, or a public class that several
files of zmon/ define. In C and header files only names are checked. CONTRIBUTING.md gives the reasons. Ruff's rules
D205 and D400 check the form of docstrings.
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

NAMES = frozenset(  # that say nothing: a noun says what the value is
    ("asked", "found", "here", "kept", "named", "own", "said", "seen", "told", "verdict", "waited")
)
OPENINGS = frozenset(  # of docstrings that do not begin with a statement
    "And As Because By How Of Or So That Those What Where Whether Which Who Whoever Whose Why".split()  # noqa: SIM905
)
STAND_INS = "zmon/client.py"  # programs use its class `Hub` in place of the hub, so it has the hub's name
_NOT_CODE = re.compile(r"""/\*[\s\S]*?\*/|//[^\n]*|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'""")  # of C: comments and strings
_NAME = rf"(_*(?:{'|'.join(sorted(NAMES))})_*)\b"
_C_BINDINGS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"(?:\b(?!(?:return|else|goto|case|define)\b)\w+|\}})\**\s+\**{_NAME}\s*[=;,)\[(:]",  # after its type
        rf",\s*\**{_NAME}\s*(?:=(?!=)|;)",  # a further name of a declaration
        rf"\(\*{_NAME}\)\s*\(",  # a pointer to a function
        rf"#\s*define\s+{_NAME}",
    )
)

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class Problem(NamedTuple):
    """One problem, and the number of its line."""

    line: int
    text: str


def problems(source: str) -> Iterator[Problem]:
    """Yield the problems of one Python file. Raises SyntaxError."""
    for node in ast.walk(ast.parse(source)):
        for name in _bound_names(node):
            if name.strip("_").lower() in NAMES:
                yield _problem_of_name(node.lineno, name)  # type: ignore[attr-defined]
        if isinstance(node, ast.Module | Definition):
            opening = re.match(r"\w+", ast.get_docstring(node) or "")
            if opening and opening[0] in OPENINGS:
                line = node.body[0].lineno
                yield Problem(line, f"the docstring begins with “{opening[0]}”: begin with a statement")


def c_problems(source: str) -> Iterator[Problem]:
    """Yield the names of one C or header file that say nothing: of variables, parameters, members and functions."""
    code = _NOT_CODE.sub(lambda text: "\n" * text[0].count("\n") or " ", source)
    for pattern in _C_BINDINGS:
        for match in pattern.finditer(code):
            yield _problem_of_name(code.count("\n", 0, match.start(1)) + 1, match[1])


def shared_classes(sources: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Return the public classes that more than one of these files (path, source) defines, with the paths."""
    paths = defaultdict(list)
    for path, source in sources:
        for node in ast.parse(source).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                paths[node.name].append(path)
    return {name: where for name, where in paths.items() if len(where) > 1}


def _problem_of_name(line: int, name: str) -> Problem:
    return Problem(line, f"`{name}` does not say what it names: use a noun")


def _bound_names(node: ast.AST) -> tuple[str, ...]:
    """Return the names that a node gives to something."""
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
            return (name,)
        case ast.arg(arg=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return (name,)
        case _:
            return ()


def _sources(*patterns: str) -> dict[str, str]:
    """Return the text of each file in git whose path matches."""
    paths = subprocess.run(["git", "ls-files", *patterns], check=True, capture_output=True, text=True).stdout.split()
    return {path: Path(path).read_text() for path in paths if Path(path).exists()}


def main() -> int:
    """Print every problem; return 1 if there is one."""
    sources, c_sources = _sources("*.py"), _sources("*.c", "*.h")
    by_path = [(path, problems(source)) for path, source in sources.items()]
    by_path += [(path, c_problems(source)) for path, source in c_sources.items()]
    lines = [f"{path}:{line}: {text}" for path, problems_of_file in by_path for line, text in sorted(problems_of_file)]
    watched = ((path, source) for path, source in sources.items() if path.startswith("zmon/") and path != STAND_INS)
    for name, paths in shared_classes(watched).items():
        lines.append(f"{paths[0]}: the class `{name}` is also in {', '.join(paths[1:])}: give each its own name")
    print("\n".join(lines) or f"{len(sources) + len(c_sources)} files: no problem")
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main())
