"""The public names for trainers. A new name is added to this list; removing a name breaks the jobs of users."""

import subprocess
import sys

import pytest

import zmon
from tests.places import REPOSITORY

DOOR = ["activity", "attach", "phase", "plan", "report", "step", "work"]


def python(script):
    """Run a script in its own process; return the last line of its output or traceback."""
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    return (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines()[-1:]


def test_public_door_is_the_golden_list():
    assert sorted(zmon.__all__) == DOOR


@pytest.mark.parametrize("module", ["zmon", "zmon.cli.main"])
def test_public_door_opens_to_functions_whatever_else_is_imported(module):
    """An imported module with the name of a function would replace it, such as `zmon.report`."""
    assert python(f"import zmon, {module}; print(*(n for n in zmon.__all__ if callable(getattr(zmon, n))))") == [
        " ".join(DOOR)
    ]


@pytest.mark.parametrize("module", ["zmon", "zmon.cli.main"])
def test_node_and_hub_need_no_torch(module):
    """The job brings torch: it is no dependency of zmon, and importing it takes 1.5 s and 200 MB."""
    assert python(f"import sys; sys.modules['torch'] = None; import {module}; print('imported')") == ["imported"]
