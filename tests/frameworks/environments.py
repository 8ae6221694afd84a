"""The environments of the frameworks: each has packages of its own, and sees those of the project's, torch above all.

They are in `.frameworks/`, and are made once. Delete the directory to make them again.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import venv
from importlib.util import find_spec
from pathlib import Path

from tests.frameworks.table import Environment
from tests.places import REPOSITORY

FOLDER = REPOSITORY / ".frameworks"
CONSTRAINTS = REPOSITORY / "constraints.txt"


class NotInstallable(Exception):
    """An environment that cannot be made; its text has the reason and appears in the table."""


def shared_packages() -> Path:
    """Return the folder of installed packages that has the project's torch."""
    spec = find_spec("torch")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parents[1]


def prepared(name: str, environment: Environment) -> Path:
    """Return the folder of programs of an environment; make it if its packages have changed. Raises NotInstallable."""
    folder = FOLDER / name
    wanted = hashlib.sha256(repr(environment).encode()).hexdigest()
    ready = folder / "ready"
    if not ready.exists() or ready.read_text() != wanted:
        venv.create(folder, clear=True, symlinks=True, with_pip=False)
        (site,) = folder.glob("lib/python*/site-packages")
        # `addsitedir` and not a plain path, because the project may have .pth files of its own.
        (site / "shared.pth").write_text(f"import site; site.addsitedir({str(shared_packages())!r})\n")
        _install(folder, *environment.packages)
        _install(folder, "--no-deps", *environment.alone)
        _check_torch(folder)
        ready.write_text(wanted)
    return folder / "bin"


def versions(folder: Path, environment: Environment) -> dict[str, str]:
    """Return the versions of torch and of the packages that an environment names."""
    names = [requirement.partition("==")[0].partition("[")[0] for requirement in environment.packages]
    names += [requirement.partition("==")[0] for requirement in environment.alone]
    code = "import sys; from importlib.metadata import version; print(*map(version, sys.argv[1:]))"
    command = [folder / "python", "-c", code, "torch", *names]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(zip(("torch", *names), done.stdout.split(), strict=True))


def _install(folder: Path, *words: str) -> None:
    """Install packages with the project's pip. Without isolation, so that builds see the project's torch too."""
    if not [word for word in words if not word.startswith("-")]:
        return
    command = [folder / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
               "--no-build-isolation", "--constraint", CONSTRAINTS, *words]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        raise NotInstallable((errors or done.stderr.strip().splitlines() or ["pip failed"])[-1].removeprefix("ERROR: "))


def _check_torch(folder: Path) -> None:
    """Check that the environment has the project's torch, and no other."""
    code = "from importlib.util import find_spec; print(find_spec('torch').origin)"
    done = subprocess.run([folder / "bin/python", "-c", code], capture_output=True, text=True, check=True)
    if Path(done.stdout.strip()).parents[1] != shared_packages():
        raise NotInstallable("pip replaced torch")


if __name__ == "__main__":
    from tests.frameworks.table import ENVIRONMENTS

    for name in sys.argv[1:] or ENVIRONMENTS:
        print(prepared(name, ENVIRONMENTS[name]))
