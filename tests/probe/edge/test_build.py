"""The package builds with and without a C compiler, and says which edge a rank gets."""

import os
import shutil
import subprocess
import sys

import pytest

from tests.places import REPOSITORY
from tests.probe.edge import building

needs_compiler = pytest.mark.skipif(building.compiler() is None, reason="there is no C compiler")


def built(folder, **env):
    """Build the package in an own folder; return the output and the edge of a rank that uses it."""
    options = ("--build-lib", folder / "lib", "--build-temp", folder / "temp")
    command = [sys.executable, "setup.py", "-q", "build", "--build-base", folder, *options]
    done = subprocess.run(
        list(map(str, command)), cwd=REPOSITORY, env=os.environ | env, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stderr, chosen_edge(folder / "lib")


def chosen_edge(folder, **env):
    script = "from zmon.probe import edge; print(edge.__file__, edge.CHOSEN.name)"
    output = subprocess.run([sys.executable, "-c", script], cwd=folder, env=env, capture_output=True, text=True).stdout
    path, name = output.split()
    assert path.startswith(str(folder))
    return name


def signal_modules(folder):
    """Return how many modules that record senders of signals a package has."""
    return len(list((folder / "lib").rglob("_signal_sender*.so")))


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """The folder of a package that was built with a compiler; output and edge of its build."""
    folder = tmp_path_factory.mktemp("compiled")
    return folder, *built(folder)


@needs_compiler
def test_package_has_its_c_modules_if_there_is_a_compiler(compiled):
    folder, output, name = compiled
    assert (name, "zmon: " in output, signal_modules(folder)) == ("c", False, 1)
    assert chosen_edge(folder / "lib", ZMON_EDGE="python") == "python"


def test_package_without_a_compiler_works_and_names_what_it_lacks(tmp_path):
    output, name = built(tmp_path, CC=str(tmp_path / "no-compiler"), PATH=str(tmp_path))
    assert (name, signal_modules(tmp_path)) == ("python", 0)
    for module in ("zmon.probe.edge.native", "zmon.probe._signal_sender"):
        (line,) = (line for line in output.splitlines() if module in line)
        assert line.startswith(f"zmon: the package works without its C module {module}, which was not built: ")


def test_pure_package_has_no_extension(tmp_path):
    assert built(tmp_path, ZMON_PURE="1")[1] == "python"


@needs_compiler
def test_extension_of_another_version_is_not_used(compiled, tmp_path):
    """For example after an update of a checkout that was not installed again."""
    shutil.copytree(compiled[0] / "lib", tmp_path / "lib")
    classes = tmp_path / "lib/zmon/probe/edge/classes.py"
    classes.write_text(classes.read_text().replace('"boundary_bytes"', '"boundary_size"'))
    script = "from zmon.probe import edge; print(edge.CHOSEN.name)"
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path / "lib", capture_output=True, text=True)
    assert done.stdout == "python\n"
    assert done.stderr.startswith(
        "zmon: cannot use the C edge of the probe, so this rank runs the Python edge: KeyError"
    )


@needs_compiler
def test_sources_compile_without_warnings(tmp_path):
    building.build(tmp_path, "-O2")
