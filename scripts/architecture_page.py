"""The two generated tables in docs/architecture.md: the packages, and what each may import."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from scripts import imports
from scripts.imports import IMPORTS, PROJECT, PUBLIC, TOP_LEVEL


def architecture_page(page: str) -> str:
    """Return the page of the architecture with new tables of packages and imports, which lie between two comments.

    Raises ValueError if the page has no such comments.
    """
    for source, table in (("the docstrings", _packages_table()), ("scripts/imports.py", imports.table())):
        before, begin, rest = page.partition(f"<!-- the table of {source}, written by make generate -->\n")
        _, end, after = rest.partition("<!-- end of the table -->\n")
        if not end:
            raise ValueError(f"docs/architecture.md has no place for the table of {source}")
        page = f"{before}{begin}{table}\n{end}{after}"
    return page


def _packages_table() -> str:
    """Return the packages, in the order of `IMPORTS`, with the first lines of their docstrings, as Markdown."""
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
