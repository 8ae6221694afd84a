"""Tests of errors: the command that installs an optional package."""

import re
import sys
import tomllib

import pytest

from tests.places import REPOSITORY
from zmon.errors import DISTRIBUTION, PartFailed, is_installed, need

PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]


def test_missing_module_is_reported_with_the_command_for_this_python():
    with pytest.raises(PartFailed) as failure:
        need("no_such_module", "the part", "dashboard")
    assert str(failure.value) == (
        f"the part cannot run: no_such_module is not installed. Run {sys.executable} -m pip install 'zmon[dashboard]'"
    )


def test_installed_module_is_no_failure():
    assert is_installed("click")
    need("click", "the part", "dashboard")


def test_name_and_extras_are_those_of_the_project():
    assert PROJECT["name"] == DISTRIBUTION
    sources = [path.read_text() for room in ("zmon", "lab") for path in (REPOSITORY / room).rglob("*.py")]
    extras = {name for source in sources for name in re.findall(r"""install_command\(['"](\w+)['"]\)""", source)}
    assert {"dashboard", "parquet", "top", "trainer"} == extras <= PROJECT["optional-dependencies"].keys()
