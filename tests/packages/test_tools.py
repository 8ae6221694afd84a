"""Tests of tools that run zmon from a folder of wheels in an environment that they make for it: uvx and pipx."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import zmon
from tests.foreign_environment import make_environment
from zmon.errors import DISTRIBUTION, LABORATORY_DISTRIBUTION

pytestmark = [pytest.mark.slow, pytest.mark.e2e, pytest.mark.timeout(600)]  # packages are installed anew
BIN = Path(sys.executable).parent
UVX_OFFLINE = ("--offline", "--no-index", "--find-links")  # and the folder of wheels
TRAIN = """
import sys, torch
model = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters())
for _ in range(50):
    optimizer.zero_grad()
    model(torch.ones(4, 8)).sum().backward()
    optimizer.step()
sys.stdout.write(sys.prefix + "\\n")  # in one write: torchrun's ranks are unbuffered and share the pipe
"""


@pytest.fixture
def tool(tmp_path):
    """Return a function that runs a tool of the extra `dev` in an empty home, and returns the completed process."""
    clean = {
        name: value for name, value in os.environ.items() if not name.startswith(("ZMON_", "PYTHON", "UV_", "PIPX_"))
    }
    env = clean | {
        "HOME": str(tmp_path),
        "UV_PYTHON_DOWNLOADS": "never",
        "COLUMNS": "300",
        "ZMON_BOX_DIR": str(tmp_path / "boxes"),
    }

    def run(name, *arguments, first_in_path=BIN):
        command = [BIN / name, *arguments]
        env["PATH"] = f"{first_in_path}:{clean['PATH']}"
        done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        return done

    return run


def test_uvx_runs_the_command_by_the_name_of_the_package(tool, wheelhouse):
    assert (
        tool("uvx", *UVX_OFFLINE, wheelhouse, DISTRIBUTION, "--version").stdout == f"zmon, version {zmon.__version__}\n"
    )


def test_uvx_runs_drills_with_the_laboratory_beside_zmon(tool, wheelhouse):
    beside = ("--from", DISTRIBUTION, "--with", LABORATORY_DISTRIBUTION)
    assert "rank-killed" in tool("uvx", *UVX_OFFLINE, wheelhouse, *beside, "zmon", "drill", "--list").stdout


def test_pipx_runs_the_command_by_the_name_of_the_package(tool, wheelhouse):
    offline = ("--backend", "pip", "--pip-args", f"--no-index --find-links {wheelhouse}")
    assert tool("pipx", "run", *offline, DISTRIBUTION, "--version").stdout == f"zmon, version {zmon.__version__}\n"


@pytest.mark.parametrize("command", ["python", "torchrun --standalone --nproc-per-node 2"])
def test_run_and_watch_under_uvx_start_the_command_of_the_job(tool, wheelhouse, tmp_path, command):
    """Uvx puts the environment that it makes for zmon first in PATH, and that has no torch."""
    python = make_environment(tmp_path / "job")
    launcher = python.with_name("torchrun")
    launcher.write_text(f"#!{python}\nfrom torch.distributed.run import main\nmain()\n")
    launcher.chmod(0o755)
    (tmp_path / "train.py").write_text(TRAIN)
    zmon_by_uvx = ("uvx", *UVX_OFFLINE, wheelhouse, DISTRIBUTION)
    done = tool(*zmon_by_uvx, "run", "--", *command.split(), "train.py", first_in_path=python.parent)
    assert {*done.stdout.split()} == {str(tmp_path / "job")}
    done = tool(*zmon_by_uvx, "watch", "--", *command.split(), "train.py", first_in_path=python.parent)
    assert {*done.stdout.split()} == {str(tmp_path / "job")}
    assert ("2 of 2 on" if "torchrun" in command else "1 of 1 on") in done.stderr
