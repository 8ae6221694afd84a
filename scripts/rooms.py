"""The table of rooms in docs/architecture.md: the first line of the docstring of each, in the order of the imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from scripts.imports import DOOR, PACKAGES, PROJECT, ROOMS


def table() -> str:
    """Return the table as Markdown: the rooms of zmon/ with the packages in them, and the packages beside zmon/."""
    rows = ["| room | what it is |", "|---|---|"]
    for path in _paths():
        name = path.relative_to(PROJECT).as_posix()
        source = path / "__init__.py" if path.is_dir() else path
        rows.append(f"| `{name}{'/' if path.is_dir() else ''}` | {_first_line(source)} |")
    return "\n".join(rows)


def _paths() -> Iterator[Path]:
    """Yield the folder or file of each room, and the folders of the packages in a room of zmon/."""
    for room in dict.fromkeys(name.partition(".")[0] for name in ROOMS):
        folder = PROJECT / DOOR / room
        if room == DOOR:
            yield PROJECT / DOOR / "__init__.py"
        elif room in PACKAGES:
            yield PROJECT / room
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
