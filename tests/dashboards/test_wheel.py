"""A wheel contains the runbooks that findings and alerts link to, and all files that are not Python."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.places import REPOSITORY

DATA = ("*/py.typed", "zmon/**/*.j2", "zmon/**/*.c", "dashboards/rules/*.yaml", "dashboards/grafana/*.json")


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """Return the folder from which a wheel would be built."""
    folder = tmp_path_factory.mktemp("build")
    command = [sys.executable, "setup.py", "-q", "egg_info", "-e", folder, "build_py", "-d", folder / "lib"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "lib"


def test_a_build_has_the_runbooks_within_the_package(built):
    assert (built / "dashboards/docs/runbooks.md").read_bytes() == (REPOSITORY / "docs/runbooks.md").read_bytes()


@pytest.mark.parametrize("pattern", DATA)
def test_a_build_has_every_other_file_of_a_package(built, pattern):
    packages = [REPOSITORY / name for name in ("zmon", "trainer", "dashboards")]
    files = {
        path.relative_to(REPOSITORY) for path in REPOSITORY.glob(pattern) if any(p in path.parents for p in packages)
    }
    assert files
    assert {path for path in files if not (built / path).is_file()} == set()
