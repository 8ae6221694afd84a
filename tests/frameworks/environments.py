"""The virtual environments of the frameworks.

An environment has the packages of its framework, and sees the packages of the project, above all torch. Environments
are in `.frameworks/` and are made once. Delete the directory to make them again.
"""

from __future__ import annotations

import hashlib
import subprocess
import venv
from importlib.util import find_spec
from pathlib import Path

from tests.frameworks.table import Environment
from tests.places import REPOSITORY

FOLDER = REPOSITORY / ".frameworks"
CONSTRAINTS = REPOSITORY / "constraints.txt"


class NotInstallable(Exception):
    """An environment cannot be made. The message is the reason, which appears in the table."""


def shared_packages() -> Path:
    """Return the folder of installed packages that has the project's torch."""
    spec = find_spec("torch")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parents[1]


def prepare(name: str, environment: Environment) -> Path:
    """Make the environment if it is missing or its packages have changed; return its `bin`. Raises NotInstallable."""
    folder = FOLDER / name
    fingerprint = hashlib.sha256(repr(environment).encode()).hexdigest()
    ready = folder / "ready"
    if not ready.exists() or ready.read_text() != fingerprint:
        venv.create(folder, clear=True, symlinks=True, with_pip=False)
        (site,) = folder.glob("lib/python*/site-packages")
        # A plain path would not process the .pth files of the project's packages.
        (site / "shared.pth").write_text(f"import site; site.addsitedir({str(shared_packages())!r})\n")
        _install(folder, *environment.packages)
        _install(folder, "--no-deps", *environment.alone)
        _check_torch(folder)
        ready.write_text(fingerprint)
    return folder / "bin"


def versions(folder: Path, environment: Environment) -> dict[str, str]:
    """Return the versions of torch and of the packages that an environment names, by package."""
    names = [requirement.partition("==")[0].partition("[")[0] for requirement in environment.packages]
    names += [requirement.partition("==")[0] for requirement in environment.alone]
    code = "import sys; from importlib.metadata import version; print(*map(version, sys.argv[1:]))"
    command = [folder / "python", "-c", code, "torch", *names]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(zip(("torch", *names), done.stdout.split(), strict=True))


def _install(folder: Path, *words: str) -> None:
    """Install packages, given with options of pip. Builds are not isolated, so that they see the project's torch."""
    if all(word.startswith("-") for word in words):
        return  # there is no package
    command = [folder / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
               "--no-build-isolation", "--constraint", CONSTRAINTS, *words]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        lines = errors or done.stderr.strip().splitlines() or ["pip failed"]
        raise NotInstallable(lines[-1].removeprefix("ERROR: "))


def _check_torch(folder: Path) -> None:
    """Check that the environment has the project's torch, and no other."""
    code = "from importlib.util import find_spec; print(find_spec('torch').origin)"
    done = subprocess.run([folder / "bin/python", "-c", code], capture_output=True, text=True, check=True)
    if Path(done.stdout.strip()).parents[1] != shared_packages():
        raise NotInstallable("pip replaced torch")
