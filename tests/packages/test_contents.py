"""Tests of the files in the packages: the source distribution is complete and builds the wheel of the checkout."""

import os
import subprocess
import sys
import tarfile
import zipfile

import pytest

from tests.places import REPOSITORY
from tests.probe.edge import building

pytestmark = pytest.mark.e2e  # it builds five wheels
needs_compiler = pytest.mark.skipif(building.compiler() is None, reason="there is no C compiler")
C_MODULES = ("zmon/probe/edge/native.", "zmon/probe/_signal_sender.")


def files(wheel):
    """Return the content of each file of a wheel. RECORD is left out: it has the others' checksums."""
    archive = zipfile.ZipFile(wheel)
    return {name: archive.read(name) for name in archive.namelist() if not name.endswith("/RECORD")}


def test_source_distribution_builds_the_wheel_of_the_checkout(built, tmp_path):
    command = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", tmp_path, built.sources]
    subprocess.run(command, check=True, capture_output=True, env=os.environ | {"ZMON_PURE": "1"}, timeout=120)
    (wheel,) = tmp_path.iterdir()
    assert files(wheel) == files(built.file("zmon_training-*-none-any.whl"))


@needs_compiler
@pytest.mark.parametrize("name", ["zmon_training", "zmon_probe"])
def test_wheel_for_this_python_differs_by_its_c_modules_only(built, name):
    with_c, pure = (files(built.file(f"{name}-*-{tag}.whl")) for tag in ("linux_*", "none-any"))
    extra = with_c.keys() - pure.keys()
    assert all(any(file.startswith(module) for file in extra) for module in C_MODULES)
    assert len(extra) == len(C_MODULES)
    assert {file for file in pure if pure[file] != with_c[file]} == {
        file for file in pure if file.endswith(".dist-info/WHEEL")
    }


def test_wheel_has_every_page_of_docs(built):
    pages = {f"dashboards/{path.relative_to(REPOSITORY)}" for path in (REPOSITORY / "docs").rglob("*.md")}
    assert pages <= files(built.file("zmon_training-*-none-any.whl")).keys()


def test_wheel_has_every_recording(built):
    recordings = {str(path.relative_to(REPOSITORY)) for path in (REPOSITORY / "zmon/stack/replay/recordings").iterdir()}
    assert recordings <= files(built.file("zmon_training-*-none-any.whl")).keys()


def test_source_distribution_has_what_an_installation_needs_and_no_tests(built):
    with tarfile.open(built.file("zmon_training-*.tar.gz")) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {
        "constraints.txt",
        "CHANGELOG.md",
        "LICENSE",
        "zmon/probe/edge/edge.c",
        "deploy/probe/pyproject.toml",
    } <= names
    assert not {name for name in names if name.startswith(("tests", "bench", "scripts", "lab"))}
