"""Tests of the command that installs an optional package."""

import re
import sys
import tomllib

import pytest

from tests.places import REPOSITORY
from zmon import extras
from zmon.errors import PartFailed

PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]


def test_missing_module_is_reported_with_the_command_for_this_python():
    with pytest.raises(PartFailed) as failure:
        extras.need("no_such_module", "the part", "dashboard")
    assert str(failure.value) == (
        f"the part cannot run: no_such_module is not installed. Run {sys.executable} -m pip install 'zmon[dashboard]'"
    )


def test_installed_module_is_no_failure():
    assert extras.is_installed("click")
    extras.need("click", "the part", "dashboard")


def test_name_and_extras_are_those_of_the_project():
    assert PROJECT["name"] == extras.DISTRIBUTION
    sources = [path.read_text() for path in (REPOSITORY / "zmon").rglob("*.py")]
    named = {name for source in sources for name in re.findall(r"""install\(['"](\w+)['"]\)""", source)}
    assert {"dashboard", "parquet", "top", "trainer"} == named <= PROJECT["optional-dependencies"].keys()
