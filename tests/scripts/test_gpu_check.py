"""Tests of the environment of `make gpu-check` and of the wheels that it may use."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from scripts import gpu_check, gpu_wheels
from tests.places import REPOSITORY


@pytest.mark.parametrize("name", ["gpu_check.py", "gpu_wheels.py", "test_matrix.py"])
def test_script_that_runs_as_a_file_imports_only_the_standard_library(name):
    """`make gpu-check` runs the file, so the package `scripts` and the packages of the project need not be there."""
    code = "import runpy, sys; runpy.run_path(sys.argv[1])"
    subprocess.run([sys.executable, "-ISc", code, str(REPOSITORY / "scripts" / name)], check=True)


def test_wheels_are_looked_for_where_they_were_downloaded():
    """Neither script can import the other one, because both run as files."""
    assert gpu_check.WHEELS == gpu_wheels.WHEELS


def test_python_is_that_of_the_user_then_of_the_project(tmp_path, monkeypatch):
    monkeypatch.setattr(gpu_check, "PROJECT", tmp_path)
    assert gpu_check.chosen_python({}) == sys.executable
    project_python = tmp_path / ".venv" / "bin" / "python"
    project_python.parent.mkdir(parents=True)
    project_python.touch()
    assert gpu_check.chosen_python({}) == str(project_python)
    assert gpu_check.chosen_python({"PYTHON": "/usr/bin/python3.12"}) == "/usr/bin/python3.12"


def printed(python, code):
    """Run code as zmon's daemons run: they ignore PYTHONPATH (-E) and the working directory (-P)."""
    done = subprocess.run([python, "-EPc", code], capture_output=True, text=True, cwd="/", check=True)
    return done.stdout.split()


def test_environment_has_this_checkout_and_the_packages_of_its_python(tmp_path):
    python = gpu_check.prepare(sys.executable, tmp_path / "environment")
    checkout, package, prefix = printed(
        python, "import sys, zmon, msgspec; print(zmon.__file__, msgspec.__file__, sys.prefix)"
    )
    assert Path(checkout).is_relative_to(REPOSITORY)
    assert package == msgspec.__file__
    assert prefix == str(tmp_path / "environment" / "venv")


def test_environment_looks_first_at_the_installed_wheels(tmp_path):
    folder = tmp_path / "environment"
    python = gpu_check.prepare(sys.executable, folder)
    (folder / gpu_check.SITE).mkdir()
    (folder / gpu_check.SITE / "msgspec.py").write_text("origin = 'wheel'")
    assert printed(python, "import msgspec; print(msgspec.origin)") == ["wheel"]


def test_wheel_for_another_python_is_refused_with_its_name(tmp_path):
    (tmp_path / "odd-1.0-cp27-cp27m-win32.whl").touch()
    with pytest.raises(gpu_check.Unusable, match=r"odd-1\.0-cp27-cp27m-win32\.whl is not a supported wheel"):
        gpu_check.install(sys.executable, tmp_path / "environment", tmp_path)


def test_python_that_suits_is_used_as_it_is(monkeypatch):
    monkeypatch.setattr(gpu_check, "problem", lambda python: "")
    monkeypatch.setattr(gpu_check, "prepare", None)  # a call would raise TypeError
    assert gpu_check.suitable_python("python3") == "python3"


def test_python_that_lacks_torch_is_unusable_with_the_next_step(monkeypatch, capsys):
    monkeypatch.setattr(gpu_check, "problem", lambda python: "ModuleNotFoundError: No module named 'torch'")
    monkeypatch.setattr(gpu_check, "prepare", lambda python: "environment")
    monkeypatch.setattr(gpu_check, "install", lambda python: None)
    with pytest.raises(gpu_check.Unusable, match=r"No module named 'torch'\. The Python must have torch and numpy"):
        gpu_check.suitable_python("python3")
    assert "preparing .gpu-check/" in capsys.readouterr().err


def test_wheels_are_those_of_zmon_for_the_machine_with_a_gpu():
    words = gpu_wheels.command(Path("folder"))
    assert {"--only-binary=:all:", "3.12", "manylinux_2_17_x86_64", "msgspec>=0.18", "py-spy>=0.4"} <= set(words)
    assert not any(word.startswith(("torch", "numpy")) for word in words)


def test_wheels_and_environment_are_not_in_the_repository():
    ignored = (REPOSITORY / ".gitignore").read_text().splitlines()
    assert gpu_check.WHEELS == gpu_wheels.WHEELS
    assert {f"{gpu_wheels.WHEELS.name}/", f"{gpu_check.FOLDER.name}/"} <= set(ignored)
