"""The modules that a rank may import: `zmon`, all of `zmon.probe`, and the modules that these import.

scripts/packages.py builds the package for jobs from them. They follow from the import statements, so no list can go out
of date.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGES_OF_JOBS = frozenset(("torch",))  # what a rank may import beside zmon and the standard library


class ForeignImport(Exception):
    """A module of a rank imports a package that a job need not have."""


def rank_modules(root: Path) -> frozenset[Path]:
    """Return the files of the modules, relative to the folder that has zmon/. Raises ForeignImport."""
    pending = [root / "zmon/__init__.py", *root.glob("zmon/probe/**/*.py")]
    files: set[Path] = set()
    while pending:
        file = pending.pop()
        if file in files:
            continue
        files.add(file)
        package = file.parent.parent if file.name == "__init__.py" else file.parent
        if package != root:
            pending.append(package / "__init__.py")
        for name in _imports(file):
            top = name.partition(".")[0]
            if top == "zmon":
                pending.extend(_file(root, name))
            elif top not in sys.stdlib_module_names | PACKAGES_OF_JOBS:
                raise ForeignImport(f"{file.relative_to(root)} imports {name}, which a job need not have")
    return frozenset(file.relative_to(root) for file in files)


def _imports(file: Path) -> Iterator[str]:
    """Yield the dotted names in the import statements of a file: of modules, functions and classes."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield str(node.module)
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _file(root: Path, name: str) -> Iterator[Path]:
    """Yield the file of a module; none if the name is that of a function or class."""
    path = root.joinpath(*name.split("."))
    yield from (file for file in (path / "__init__.py", path.with_suffix(".py")) if file.is_file())
