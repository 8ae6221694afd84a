"""Tests that the package builds with and without a C compiler, and of the edge that its ranks then run."""

import os
import shutil
import subprocess
import sys

import pytest

from tests.places import REPOSITORY
from tests.probe.edge import building

needs_compiler = pytest.mark.skipif(building.compiler() is None, reason="there is no C compiler")


def build_package(folder, **env):
    """Build the package in this folder; return the stderr of the build and the edge of a rank that uses the package."""
    options = ("--build-lib", folder / "lib", "--build-temp", folder / "temp")
    command = [sys.executable, "setup.py", "-q", "build", "--build-base", folder, *options]
    done = subprocess.run(
        list(map(str, command)), cwd=REPOSITORY, env=os.environ | env, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    name, _ = chosen_edge(folder / "lib")
    return done.stderr, name


def chosen_edge(folder, **env):
    """Return the name of the edge that a process imports from the package in this folder, and its stderr."""
    script = "from zmon.probe import edge; print(edge.__file__, edge.CHOSEN.name)"
    done = subprocess.run([sys.executable, "-c", script], cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    path, name = done.stdout.split()
    assert path.startswith(str(folder))
    return name, done.stderr


def has_signal_sender(folder):
    """Return True if the package in this folder has the C module that names the sender of a signal."""
    return any((folder / "lib").rglob("_signal_sender*.so"))


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """Return the folder of the package that a compiler built, the stderr of the build, and the edge of a rank."""
    folder = tmp_path_factory.mktemp("compiled")
    return folder, *build_package(folder)


@needs_compiler
def test_package_has_its_c_modules_if_there_is_a_compiler(compiled):
    folder, output, name = compiled
    assert name == "c"
    assert "zmon: " not in output
    assert has_signal_sender(folder)
    assert chosen_edge(folder / "lib", ZMON_EDGE="python") == ("python", "")


def test_package_without_a_compiler_works_and_names_what_it_lacks(tmp_path):
    output, name = build_package(tmp_path, CC=str(tmp_path / "no-compiler"), PATH=str(tmp_path))
    assert name == "python"
    assert not has_signal_sender(tmp_path)
    for module in ("zmon.probe.edge.native", "zmon.probe._signal_sender"):
        (line,) = (line for line in output.splitlines() if module in line)
        assert line.startswith(f"zmon: the package works without its C module {module}, which was not built: ")


@needs_compiler
def test_c_edge_of_another_version_is_not_used(compiled, tmp_path):
    """A checkout has such a C edge after an update, until it is installed again."""
    shutil.copytree(compiled[0] / "lib", tmp_path / "lib")
    classes = tmp_path / "lib/zmon/probe/edge/classes.py"
    classes.write_text(classes.read_text().replace('"boundary_bytes"', '"boundary_size"'))
    name, output = chosen_edge(tmp_path / "lib")
    assert name == "python"
    assert output.startswith("zmon: cannot use the C edge of the probe, so this rank runs the Python edge: KeyError")


@needs_compiler
def test_sources_compile_without_warnings(tmp_path):
    building.build(tmp_path, "-O2")
