"""Tests of errors: the command that installs an optional package."""

import re
import sys
import tomllib

import pytest

from tests.places import REPOSITORY
from zmon.errors import DISTRIBUTION, LABORATORY_DISTRIBUTION, PROBE_DISTRIBUTION, PartFailed, is_installed, need


def project(folder):
    """Return the table `project` of the pyproject.toml in a folder."""
    return tomllib.loads((REPOSITORY / folder / "pyproject.toml").read_text())["project"]


def test_missing_module_is_reported_with_the_command_for_this_python():
    with pytest.raises(PartFailed) as failure:
        need("no_such_module", "the part", "dashboard")
    assert str(failure.value) == (
        "the part cannot run: no_such_module is not installed. "
        f"Run {sys.executable} -m pip install 'zmon-training[dashboard]'"
    )


def test_installed_module_is_no_failure():
    assert is_installed("click")
    need("click", "the part", "dashboard")


def test_names_of_the_packages_are_those_of_their_projects():
    names = [project(folder)["name"] for folder in (".", "deploy/probe", "deploy/lab")]
    assert names == [DISTRIBUTION, PROBE_DISTRIBUTION, LABORATORY_DISTRIBUTION]


def test_extras_are_those_of_the_project():
    sources = [path.read_text() for package in ("zmon", "lab") for path in (REPOSITORY / package).rglob("*.py")]
    extras = {name for source in sources for name in re.findall(r"""install_command\(['"](\w+)['"]\)""", source)}
    assert {"dashboard", "parquet", "top", "trainer"} == extras <= project(".")["optional-dependencies"].keys()
