"""Tests of the paths of pages: every page that zmon names exists, and messages have its path on this machine."""

import re

import pytest

from tests.places import REPOSITORY
from zmon.stack import manual


def test_page_is_named_by_its_path_on_this_machine():
    text = "see docs/deploy/security.md), or docs/thresholds.md"
    assert manual.with_paths(text) == f"see {REPOSITORY}/docs/deploy/security.md), or {REPOSITORY}/docs/thresholds.md"


@pytest.mark.parametrize("text", ["docs/no_such_page.md", "https://example.com/docs/agent.md", "/srv/docs/agent.md"])
def test_other_paths_stay_unchanged(text):
    assert manual.with_paths(text) == text


def test_pages_in_a_wheel_are_inside_the_package(tmp_path, monkeypatch):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/agent.md").touch()
    monkeypatch.setattr(manual, "package", lambda: tmp_path)
    assert manual.with_paths("docs/agent.md") == f"{tmp_path}/docs/agent.md"


def test_every_page_that_the_code_names_exists():
    """A wheel has the whole folder docs/, so each of these pages exists there too."""
    sources = [path.read_text() for name in ("zmon", "dashboards", "lab") for path in (REPOSITORY / name).rglob("*.py")]
    pages = {name for source in sources for name in re.findall(r"(?<![\w/.])docs/[\w/-]+\.md", source)}
    assert len(pages) > 5
    of_others = {"docs/web-configuration.md"}  # of Prometheus' exporter-toolkit
    assert {name for name in pages - of_others if not (REPOSITORY / name).is_file()} == set()
