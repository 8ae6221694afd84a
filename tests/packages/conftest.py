"""Fixtures with the packages of zmon, which are built once."""

from __future__ import annotations

import fcntl
import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from scripts.image_versions import FILE
from scripts.packages import build_packages
from zmon.errors import DISTRIBUTION


@dataclass(frozen=True)
class BuiltPackages:
    """The folder of the built packages, and the source tree of `zmon` that they were built from."""

    folder: Path
    sources: Path

    def file(self, pattern: str) -> Path:
        """Return the only file that matches."""
        (path,) = self.folder.glob(pattern)
        return path


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> BuiltPackages:
    """Return the packages of this checkout. The processes of pytest-xdist share them: the first one builds them."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    folder, unfinished, room = (shared / name for name in ("dist", "unfinished-dist", "room"))
    with (shared / "packages.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            unfinished.mkdir()
            room.mkdir()
            assert {*build_packages(unfinished, room)} == {*unfinished.iterdir()}
            unfinished.rename(folder)
    return BuiltPackages(folder, room / "zmon")


@pytest.fixture(scope="session")
def wheelhouse(built: BuiltPackages, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the wheels for every machine and those that they require: 28 MB from the index."""
    folder = tmp_path_factory.mktemp("wheelhouse")
    for wheel in built.folder.glob("*-none-any.whl"):
        shutil.copy(wheel, folder)
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:"]
    names = [DISTRIBUTION, "pip>=26.1"]  # pipx keeps a pip of its own up to date
    subprocess.run([*pip, "--constraint", FILE, "--find-links", folder, "--dest", folder, *names], check=True)
    return folder


@pytest.fixture(scope="session")
def install(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Path]:
    """Return a function that installs one wheel, and nothing else, once; it returns the folder that then has it."""

    @functools.cache
    def install_wheel(wheel: Path) -> Path:
        target = tmp_path_factory.mktemp("site")
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--no-deps", "--no-index", "--target", target, wheel], check=True, timeout=60)
        return target

    return install_wheel


@pytest.fixture
def python(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return a function that runs a Python without its site-packages, so without torch and our dependencies."""

    def run(site: Path, *arguments: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("ZMON_", "PYTHON"))}
        environment = clean | {"PYTHONPATH": str(site), "ZMON_BOX_DIR": str(tmp_path / "boxes"), **env}
        command = [sys.executable, "-S", *map(str, arguments)]
        return subprocess.run(
            command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
        )

    return run
