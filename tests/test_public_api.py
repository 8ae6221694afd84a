"""Tests of the names of the public API for trainers.

To add a name, add it to the list. A removed name breaks jobs of users.
"""

import subprocess
import sys

import pytest

import zmon
from tests.places import REPOSITORY

PUBLIC_NAMES = ["activity", "attach", "phase", "plan", "report", "step", "work"]


def run_python(script):
    """Run a script in another process; return its last line of output, or the last line of its traceback."""
    completed = subprocess.run(
        [sys.executable, "-c", script], cwd=REPOSITORY, capture_output=True, text=True, timeout=30, check=False
    )
    return (completed.stdout if completed.returncode == 0 else completed.stderr).strip().splitlines()[-1:]


def test_public_names_are_exactly_the_listed_names():
    assert sorted(zmon.__all__) == PUBLIC_NAMES


@pytest.mark.parametrize("module", ["zmon", "zmon.cli.main"])
def test_public_names_are_callable_after_other_imports(module):
    """An imported submodule with the name of a function, such as `zmon.report`, would replace the function."""
    assert run_python(f"import zmon, {module}; print(*(n for n in zmon.__all__ if callable(getattr(zmon, n))))") == [
        " ".join(PUBLIC_NAMES)
    ]


@pytest.mark.parametrize("module", ["zmon", "zmon.cli.main"])
def test_zmon_and_its_command_line_import_without_torch(module):
    """torch is not a dependency of zmon, and its import takes 1.5 s and 200 MB."""
    assert run_python(f"import sys; sys.modules['torch'] = None; import {module}; print('imported')") == ["imported"]
