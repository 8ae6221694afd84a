"""Test that the dashboard has no `Any`. So mypy refuses code that reads an answer by a string key."""

import ast
from pathlib import Path

import pytest

from tests.places import REPOSITORY

FILES = sorted((REPOSITORY / "dashboards").rglob("*.py"))


def path_in_dashboards(file: Path) -> str:
    return file.relative_to(REPOSITORY / "dashboards").as_posix()


@pytest.mark.parametrize("file", FILES, ids=path_in_dashboards)
def test_file_does_not_use_any(file):
    """Check signatures, aliases, fields and annotations in quotes."""
    nodes = list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
    imported = {alias.name for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names}
    identifiers = {node.id for node in nodes if isinstance(node, ast.Name)}
    identifiers |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    quoted = {node.value for node in nodes if isinstance(node, ast.Constant)}
    assert "Any" not in imported | identifiers | quoted
