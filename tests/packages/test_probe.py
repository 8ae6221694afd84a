"""Tests of the package for jobs: it has only the modules of a rank, needs no other package, and watches a rank."""

import zipfile
from email.parser import Parser
from pathlib import PurePath

import pytest

from scripts.rank_modules import rank_modules
from tests.boxes import read_totals
from tests.foreign_environment import assert_ranks_are_watched, make_environment
from tests.packages import test_contents
from tests.places import REPOSITORY
from zmon.box import box_path
from zmon.box.reader import BoxReader

pytestmark = pytest.mark.e2e  # it builds five wheels
PURE, WITH_C = "zmon_probe-*-none-any.whl", "zmon_probe-*-linux_*.whl"
RANK = """
import sys, zmon
assert zmon.attach(), "not watched"
for _ in range(3):
    with zmon.step():
        zmon.phase("forward")
foreign = {name.partition(".")[0] for name in sys.modules} - sys.stdlib_module_names - {"__main__", "__mp_main__"}
assert foreign == {"zmon"}, foreign
"""


@pytest.fixture
def rank(tmp_path):
    """Return a script that trains three steps without torch."""
    script = tmp_path / "rank.py"
    script.write_text(RANK)
    return script


def read_box(tmp_path):
    """Return the steps and the edge that the box of the rank has."""
    reader = BoxReader(box_path(tmp_path / "boxes", "job", 0, 0))
    try:
        return read_totals(reader).steps, reader.identity().edge
    finally:
        reader.close()


def test_installation_has_zmon_and_nothing_else(built, install):
    site = install(built.file(PURE))
    (metadata,) = site.glob("*.dist-info")
    assert {path.name for path in site.iterdir()} == {"zmon", metadata.name, "bin"}
    assert metadata.name.startswith("zmon_probe-")
    assert Parser().parsestr((metadata / "METADATA").read_text()).get_all("Requires-Dist") is None


def test_modules_are_those_of_a_rank_and_of_the_command(built):
    modules = {PurePath(name) for name in zipfile.ZipFile(built.file(PURE)).namelist() if name.endswith(".py")}
    assert modules == {*rank_modules(REPOSITORY), PurePath("zmon/__main__.py")}


@pytest.mark.parametrize(
    ("pattern", "edge"), [(PURE, "python"), pytest.param(WITH_C, "c", marks=test_contents.needs_compiler)]
)
def test_rank_without_torch_writes_a_box_that_the_reader_reads(built, install, python, rank, tmp_path, pattern, edge):
    done = python(install(built.file(pattern)), rank, ZMON_JOB_ID="job")
    assert (done.returncode, done.stderr) == (0, "")
    assert read_box(tmp_path) == (3, edge)


def test_zmon_run_starts_a_command_without_packages_of_others(built, install, python, rank, tmp_path):
    site = install(built.file(PURE))
    done = python(site, "-m", "zmon", "run", "--job-id", "job", "--", "python3", "-S", rank)
    assert (done.returncode, done.stderr) == (0, "")
    assert read_box(tmp_path) == (3, "python")


def test_ranks_of_torchrun_are_watched_by_the_package_of_their_own_environment(built, install, tmp_path):
    site, python = install(built.file(PURE)), make_environment(tmp_path / "foreign")
    assert_ranks_are_watched([str(python), "-m", "zmon", "run"], python, tmp_path, PYTHONPATH=str(site))


def test_other_command_says_in_one_line_which_package_has_it(built, install, python):
    done = python(install(built.file(PURE)), "-m", "zmon", "watch", "--", "true")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "the package zmon-training the other commands" in done.stderr
