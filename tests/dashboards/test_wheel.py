"""Tests of the files in a wheel. It contains the runbooks and the data files of zmon, trainer and dashboards."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.places import REPOSITORY

DATA = (
    "*/py.typed", "zmon/**/*.j2", "zmon/**/*.c", "dashboards/rules/*.yaml", "dashboards/**/*.j2",
    "dashboards/grafana/*.json",
)  # fmt: skip


@pytest.fixture(scope="module")
def build_folder(tmp_path_factory) -> Path:
    """Return the folder from which a wheel would be built."""
    folder = tmp_path_factory.mktemp("build")
    command = [sys.executable, "setup.py", "-q", "egg_info", "-e", folder, "build_py", "-d", folder / "lib"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "lib"


def test_build_contains_runbooks_within_the_package(build_folder):
    assert (build_folder / "dashboards/docs/runbooks.md").read_bytes() == (REPOSITORY / "docs/runbooks.md").read_bytes()


@pytest.mark.parametrize("pattern", DATA)
def test_build_contains_all_data_files(build_folder, pattern):
    packages = [REPOSITORY / name for name in ("zmon", "trainer", "dashboards")]
    files = {
        path.relative_to(REPOSITORY) for path in REPOSITORY.glob(pattern) if any(p in path.parents for p in packages)
    }
    assert files
    assert {path for path in files if not (build_folder / path).is_file()} == set()
