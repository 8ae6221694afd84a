"""Runs the GPU kit in a Python that has this checkout, its dependencies and torch, without network.

Run it with `make gpu-check`. If the Python lacks something, this creates a virtual environment in .gpu-check/. It has
this checkout and all packages of the Python, and, if packages are still missing, the wheels of .wheels/ (`make
gpu-wheels`). Nothing is installed into the Python itself. Options go to `python -m bench.gpu_check`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

PROJECT = Path(__file__).parents[1]
FOLDER = PROJECT / ".gpu-check"
WHEELS = PROJECT / ".wheels"  # gpu_wheels.py fills it. A script that runs as a file cannot import the package `scripts`
SITE = "site"  # directory of the installed wheels, in FOLDER
NEXT_STEP = (
    "The Python must have torch and numpy. For Python 3.12, `make gpu-wheels` on a machine with network brings all"
    " other packages in .wheels/"
)
_TIMEOUT_SECONDS = 300.0  # of a process
# zmon's daemons ignore PYTHONPATH, so this checkout and its dependencies must be there without it.
_IMPORTS_CODE = """
import pathlib, sys
import torch, numpy
import zmon.agent, zmon.hub, zmon.cli.main, trainer
sys.exit(pathlib.Path(zmon.__file__).parents[1] != pathlib.Path(sys.argv[1]))
"""
_SITE_PACKAGES = "import site, sysconfig; print(*{*site.getsitepackages(), sysconfig.get_path('purelib')}, sep='\\n')"


class Unusable(Exception):
    """The kit cannot run; the message is one line with the next step."""


def chosen_python(environ: Mapping[str, str]) -> str:
    """Return the Python that PYTHON names, else the Python of `make setup`, else the Python that runs this script."""
    project_python = PROJECT / ".venv" / "bin" / "python"
    return environ.get("PYTHON") or (str(project_python) if project_python.exists() else sys.executable)


def problem(python: str) -> str:
    """Return why a Python cannot run the kit, in one line; "" if it can."""
    command = (python, "-EPc", _IMPORTS_CODE, str(PROJECT))
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if not done.returncode:
        return ""
    return (done.stderr.strip().splitlines() or ["its zmon is of another checkout"])[-1]


def prepare(python: str, folder: Path = FOLDER) -> str:
    """Return the Python of a virtual environment that has this checkout and what `python` has. Raises Unusable."""
    shutil.rmtree(folder, ignore_errors=True)
    venv = folder / "venv"
    _run((python, "-m", "venv", "--without-pip", str(venv)))
    inherited = _run((python, "-c", _SITE_PACKAGES)).split("\n")
    (packages,) = venv.glob("lib/python*/site-packages")
    # `addsitedir` also reads the .pth files there, which may lead to further packages.
    inherited_lines = (f"import site; site.addsitedir({path!r})" for path in sorted(filter(None, inherited)))
    (packages / "gpu_check.pth").write_text("\n".join((str(folder / SITE), str(PROJECT), *inherited_lines)) + "\n")
    return str(venv / "bin" / "python")


def install(python: str, folder: Path = FOLDER, wheels: Path = WHEELS) -> None:
    """Install the wheels where the prepared environment looks first. Raises Unusable."""
    files = sorted(map(str, wheels.glob("*.whl")))
    if files:
        options = ("--quiet", "--no-index", "--no-deps", "--no-compile", "--target", str(folder / SITE))
        _run((python, "-m", "pip", "--disable-pip-version-check", "install", *options, *files))


def _run(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unusable(str(error)) from error
    if done.returncode:
        raise Unusable(f"{' '.join(command[:4])}: {(done.stderr.strip().splitlines() or ['it failed'])[-1]}")
    return done.stdout


def suitable_python(python: str) -> str:
    """Return a Python that can run the kit: this one, or an environment made from it. Raises Unusable."""
    reason = problem(python)
    if not reason:
        return python
    print(f"gpu-check: {python}: {reason}; preparing {FOLDER.name}/", file=sys.stderr, flush=True)
    environment = prepare(python)
    if not problem(environment):
        return environment
    install(python)
    if reason := problem(environment):
        raise Unusable(f"{reason}. {NEXT_STEP}")
    return environment


def main() -> None:
    """Find or prepare the Python, then become the kit. Exits with one line if there is none."""
    try:
        python = suitable_python(chosen_python(os.environ))
    except Unusable as error:
        sys.exit(f"gpu-check: {error}")
    tools = os.pathsep.join((str(FOLDER / SITE / "bin"), os.environ.get("PATH", "")))  # py-spy
    os.chdir(PROJECT)
    os.execve(python, (python, "-m", "bench.gpu_check", *sys.argv[1:]), {**os.environ, "PATH": tools})


if __name__ == "__main__":
    main()
