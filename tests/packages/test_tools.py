"""Tests of tools that run zmon from a folder of wheels in an environment that they make for it: uvx and pipx."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import zmon
from zmon.errors import DISTRIBUTION, LABORATORY_DISTRIBUTION

pytestmark = [pytest.mark.slow, pytest.mark.e2e, pytest.mark.timeout(600)]  # packages are installed anew
BIN = Path(sys.executable).parent


@pytest.fixture
def tool(tmp_path):
    """Return a function that runs a tool of the extra `dev` in an empty home, and returns what it printed."""
    clean = {
        name: value for name, value in os.environ.items() if not name.startswith(("ZMON_", "PYTHON", "UV_", "PIPX_"))
    }
    env = clean | {
        "HOME": str(tmp_path),
        "UV_PYTHON_DOWNLOADS": "never",
        "PATH": f"{BIN}:{clean['PATH']}",
        "COLUMNS": "300",
    }

    def run(name, *arguments):
        command = [BIN / name, *arguments]
        done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_uvx_runs_the_command_by_the_name_of_the_package_and_the_laboratory_beside_it(tool, wheelhouse):
    offline = ("--offline", "--no-index", "--find-links", wheelhouse)
    assert tool("uvx", *offline, DISTRIBUTION, "--version") == f"zmon, version {zmon.__version__}\n"
    beside = ("--from", DISTRIBUTION, "--with", LABORATORY_DISTRIBUTION)
    assert "rank-killed" in tool("uvx", *offline, *beside, "zmon", "drill", "--list")


def test_pipx_runs_the_command_by_the_name_of_the_package(tool, wheelhouse):
    offline = ("--backend", "pip", "--pip-args", f"--no-index --find-links {wheelhouse}")
    assert tool("pipx", "run", *offline, DISTRIBUTION, "--version") == f"zmon, version {zmon.__version__}\n"
