"""The table of packages in docs/architecture.md: the first line of each docstring, in the order of the imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from scripts.imports import IMPORTS, PROJECT, PUBLIC, TOP_LEVEL


def table() -> str:
    """Return the table as Markdown: packages and modules of zmon/, their subpackages, and the packages beside zmon/."""
    rows = ["| package | what it is |", "|---|---|"]
    for path in _paths():
        name = path.relative_to(PROJECT).as_posix()
        source = path / "__init__.py" if path.is_dir() else path
        rows.append(f"| `{name}{'/' if path.is_dir() else ''}` | {_first_line(source)} |")
    return "\n".join(rows)


def _paths() -> Iterator[Path]:
    """Yield the folder or file of each package of `IMPORTS`, and the folders of subpackages of zmon/."""
    for package in dict.fromkeys(name.partition(".")[0] for name in IMPORTS):
        folder = PROJECT / PUBLIC / package
        if package == PUBLIC:
            yield PROJECT / PUBLIC / "__init__.py"
        elif package in TOP_LEVEL:
            yield PROJECT / package
        elif folder.is_dir():
            yield folder
            yield from sorted(file.parent for file in folder.glob("*/__init__.py"))
        else:
            yield folder.with_suffix(".py")


def _first_line(source: Path) -> str:
    """Return the first line of the docstring of a module. Raises ValueError if it has none."""
    text = ast.get_docstring(ast.parse(source.read_text()))
    if not text:
        raise ValueError(f"{source.relative_to(PROJECT)} has no docstring")
    return text.partition("\n")[0]
