"""Tests of the environment of a program that a rank becomes by an exec."""

import os
import subprocess
import sys

import pytest

from zmon.probe.autoload.sitecustomize import AUTOLOAD

SCRIPT = """
import os, sys
from zmon.probe.hooks import executions
executions.install()
show = "import os; print(os.environ.get('PYTHONPATH'), os.environ.get('ZMON_RANK_PID'))"
command = [sys.executable, "-S", "-c", show]
"""
CLEAN = {"PATH": os.environ["PATH"]}


def run(code, **variables):
    """Run the code in a rank, which becomes another program, and return the lines that are printed."""
    env = {**CLEAN, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **variables}
    done = subprocess.run([sys.executable, "-c", SCRIPT + code], env=env, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("code", "path"),
    [
        ("os.environ['PYTHONPATH'] = '/job'; os.execv(sys.executable, command)", f"{AUTOLOAD}:/job"),
        pytest.param(
            "del os.environ['PYTHONPATH']; os.execvp(sys.executable, command)", AUTOLOAD, marks=pytest.mark.slow
        ),
        ("os.execve(sys.executable, command, {'PYTHONPATH': '/job'})", f"{AUTOLOAD}:/job"),
        ("os.execve(sys.executable, command, {'PYTHONPATH': b'/job'})", f"{AUTOLOAD}:/job"),
        pytest.param("os.execle(sys.executable, *command, {})", AUTOLOAD, marks=pytest.mark.slow),
    ],
)
def test_program_that_a_rank_becomes_is_watched_once_it_trains(code, path):
    assert run(code) == [f"{path} 0"]


def test_path_of_a_process_whose_children_may_be_ranks_does_not_grow():
    (line,) = run("os.execv(sys.executable, command)", PYTHONPATH=f"{AUTOLOAD}:{':'.join(sys.path)}")
    assert line.count(AUTOLOAD) == 1


def test_program_of_a_child_is_unwatched():
    child = "os.environ['PYTHONPATH'] = '/job'\nif os.fork() == 0:\n    os.execv(sys.executable, command)\nos.wait()"
    assert run(child) == ["/job None"]


def test_rank_whose_exec_fails_has_its_environment():
    failing = (
        "os.environ['PYTHONPATH'] = '/job'\ntry:\n    os.execv('/no/program', command)\n"
        "except FileNotFoundError:\n    print(os.environ['PYTHONPATH'], os.environ.get('ZMON_RANK_PID'))"
    )
    assert run(failing) == ["/job None"]
    assert run(failing.replace("'/job'", f"'{AUTOLOAD}:/job'"), ZMON_PARENT_PID="1") == [f"{AUTOLOAD}:/job None"]
