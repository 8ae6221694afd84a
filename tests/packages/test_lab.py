"""Tests of the package of the laboratory: it has only lab/, needs zmon of its own version, and adds commands."""

import re
import tomllib
import zipfile
from email.parser import Parser

import pytest

import zmon
from tests.places import REPOSITORY

pytestmark = pytest.mark.e2e  # it builds five wheels
WHEEL = "zmon_lab-*-none-any.whl"
SETTINGS = [(REPOSITORY / folder / "pyproject.toml").read_text() for folder in (".", "deploy/lab")]
ZMON, LAB = (tomllib.loads(text)["project"] for text in SETTINGS)


def test_versions_are_those_of_zmon():
    assert ZMON["version"] == LAB["version"] == zmon.__version__
    assert LAB["dependencies"] == [f"{ZMON['name']}=={zmon.__version__}"]


def test_wheel_has_all_of_lab_and_nothing_else(built):
    names = {name for name in zipfile.ZipFile(built.file(WHEEL)).namelist() if ".dist-info/" not in name}
    files = {path for path in (REPOSITORY / "lab").rglob("*") if path.suffix in (".py", ".c")}
    assert names == {path.relative_to(REPOSITORY).as_posix() for path in files}
    assert {name for name in names if name.endswith(".c")} == {"lab/libraries/clock.c", "lab/libraries/nvml.c"}


def test_wheel_of_zmon_has_nothing_of_lab(built):
    names = zipfile.ZipFile(built.file("zmon_training-*-none-any.whl")).namelist()
    assert [name for name in names if name.startswith(("lab/", "bench/"))] == []


def test_wheel_requires_zmon_and_names_its_commands(built, install):
    site = install(built.file(WHEEL))
    (metadata,) = site.glob("*.dist-info")
    requirements = Parser().parsestr((metadata / "METADATA").read_text()).get_all("Requires-Dist")
    assert requirements == LAB["dependencies"]
    commands = re.findall(r"^([\w-]+) = lab\.", (metadata / "entry_points.txt").read_text(), re.M)
    assert {*commands} == {*LAB["entry-points"]["zmon.commands"]}
