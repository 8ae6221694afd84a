"""Test that each path of the repository in pages, comments and settings exists.

A page names a source file by its whole path from the root of the repository.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator

import pytest

from tests.places import REPOSITORY

FOLDERS = "bench|dashboards|deploy|docs|helm|lab|scripts|tests|trainer|zmon"
IN_A_PAGE = re.compile(rf"`((?:{FOLDERS})/[\w./*-]+)`")  # a whole code span, so no part of a command
IN_CODE = re.compile(rf"(?<![\w/.~<{{}}-])((?:{FOLDERS})/[\w/.-]*\.(?:c|h|jsonl?|md|py|toml|txt|yaml))\b")
NAME_ALONE = re.compile(r"`([\w-]+\.(?:c|j2|py|sh))`")
NO_FILES = {
    "bench/dlrm_s_criteo_kaggle.sh",  # of facebookresearch/dlrm
    "dashboards/docs/runbooks.md",  # of a wheel
    "deploy/zmon-dashboard",  # of Kubernetes
    "docs/web-configuration.md",  # of Prometheus' exporter-toolkit
    "docs/no_such_page.md",  # of tests
    "zmon/cli.py",  # of another distribution with our name
    "zmon/new/file.py",  # of tests
}
PAGES = (".md",)
CODE = (".c", ".h", ".in", ".j2", ".py", ".toml", ".yaml", "Makefile")


def tracked_files() -> list[str]:
    """Return the files of the checkout that git knows."""
    listed = subprocess.run(["git", "ls-files"], cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
    return [file for file in listed.split() if (REPOSITORY / file).is_file()]


def named_paths() -> Iterator[tuple[str, str]]:
    """Yield each file with each path that it names."""
    for file in tracked_files():
        if file.endswith((*PAGES, *CODE)):
            pattern = IN_A_PAGE if file.endswith(PAGES) else IN_CODE
            for path in pattern.findall((REPOSITORY / file).read_text()):
                yield file, path


def test_every_named_path_exists():
    paths = {(file, path) for file, path in named_paths() if path not in NO_FILES}
    assert {"docs/architecture.md", "CONTRIBUTING.md", "Makefile"} <= {file for file, _ in paths}
    missing = {(file, path) for file, path in paths if not any(REPOSITORY.glob(path.rstrip("/")))}
    assert missing == set()


def test_pages_name_source_files_by_their_whole_path():
    names_in_folders = {path.rpartition("/")[2] for path in tracked_files() if "/" in path}
    pages = [file for file in tracked_files() if file.endswith(PAGES)]
    alone = {(file, name) for file in pages for name in NAME_ALONE.findall((REPOSITORY / file).read_text())}
    assert {(file, name) for file, name in alone if name in names_in_folders} == set()


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("in `zmon/hub/api/` and `tests/golden/*.txt`", ["zmon/hub/api/", "tests/golden/*.txt"]),
        ("run `kubectl logs deploy/zmon-hub` and `python -m bench.attack`", []),
        ("[a page](docs/glossary.md)", []),
    ],
)
def test_paths_in_a_page(text, paths):
    assert IN_A_PAGE.findall(text) == paths


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("as zmon/hub/agent_link.py compares samples.", ["zmon/hub/agent_link.py"]),
        ("/home/ann/zmon/lab/jobs/ddp.py", []),
    ],
)
def test_paths_in_code(text, paths):
    assert IN_CODE.findall(text) == paths
