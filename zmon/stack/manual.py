"""The pages of docs/ on this machine: beside the package `dashboards` in a checkout, and inside it in a wheel."""

from __future__ import annotations

import importlib.resources
import re
from pathlib import Path

_PAGE = re.compile(r"(?<![\w/.])docs/[\w/-]+\.md")


def package() -> Path:
    """Return the folder of the package `dashboards`, which also has the alert rules."""
    return Path(str(importlib.resources.files("dashboards")))


def folder() -> Path:
    """Return the folder that contains docs/."""
    return package() if (package() / "docs").is_dir() else package().parent


def with_paths(text: str) -> str:
    """Return the text with the paths of pages on this machine, in place of names such as docs/agent.md."""
    return _PAGE.sub(lambda name: str(_path(name[0])), text)


def _path(name: str) -> Path:
    path = folder() / name
    return path if path.is_file() else Path(name)
