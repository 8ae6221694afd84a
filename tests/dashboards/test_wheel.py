"""What is installed from a wheel has the runbooks that findings and alerts lead to."""

import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).parents[2]


def test_a_build_has_the_runbooks_within_the_package(tmp_path):
    command = [sys.executable, "setup.py", "-q", "egg_info", "-e", tmp_path, "build_py", "-d", tmp_path / "lib"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    built = tmp_path / "lib/dashboards/docs/runbooks.md"
    assert built.read_bytes() == (PROJECT / "docs/runbooks.md").read_bytes()
