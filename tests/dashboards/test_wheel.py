"""What is installed from a wheel has the runbooks that findings and alerts lead to."""

import subprocess
import sys

from tests.places import REPOSITORY


def test_a_build_has_the_runbooks_within_the_package(tmp_path):
    command = [sys.executable, "setup.py", "-q", "egg_info", "-e", tmp_path, "build_py", "-d", tmp_path / "lib"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    built = tmp_path / "lib/dashboards/docs/runbooks.md"
    assert built.read_bytes() == (REPOSITORY / "docs/runbooks.md").read_bytes()
