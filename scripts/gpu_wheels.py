"""Downloads the packages that a machine with a GPU and no network lacks, as wheels in .wheels/.

Run it with `make gpu-wheels` on a machine with network. The wheels are zmon's dependencies and their dependencies, for
Python 3.12 on x86-64. torch and numpy are left out, because the machine with the GPU has them. `make gpu-check` uses
the folder on that machine.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[1]
WHEELS = PROJECT / ".wheels"
PYTHON = "3.12"
MAX_BYTES = 60_000_000  # so that the folder can travel with the working tree
# pip takes only platforms that are named exactly. Each names the glibc that a wheel needs; newest first.
_GLIBCS = ("_2_28", "_2_17", "2014", "_2_12", "2010", "_2_5", "1")


def dependencies() -> list[str]:
    """Return the requirements of zmon itself without numpy; the extras need torch, or are for people."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    return [requirement for requirement in project["dependencies"] if not requirement.startswith("numpy")]


def command(folder: Path) -> list[str]:
    """Return pip's command line, which downloads all wheels into a folder."""
    platforms = (word for glibc in _GLIBCS for word in ("--platform", f"manylinux{glibc}_x86_64"))
    return [
        *(sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--dest", str(folder)),
        *("--only-binary=:all:", "--implementation", "cp", "--python-version", PYTHON, *platforms),
        *dependencies(),
    ]


def size(folder: Path) -> int:
    """Return the bytes of all files in a folder."""
    return sum(file.stat().st_size for file in folder.iterdir())


def main() -> None:
    """Replace the folder by a new one. Exits with one line if pip fails or the wheels are too large."""
    new = WHEELS.with_suffix(".new")
    shutil.rmtree(new, ignore_errors=True)
    if subprocess.run(command(new), check=False).returncode:
        shutil.rmtree(new, ignore_errors=True)
        sys.exit(
            "gpu-wheels: pip could not download the packages: see its message above. Is a package index reachable?"
        )
    num_bytes = size(new)
    if num_bytes > MAX_BYTES:
        sys.exit(f"gpu-wheels: {new} has {num_bytes:,} bytes, more than {MAX_BYTES:,}: remove a dependency")
    shutil.rmtree(WHEELS, ignore_errors=True)
    new.rename(WHEELS)
    print(f"{len(list(WHEELS.iterdir()))} wheels for Python {PYTHON} in {WHEELS.name}/: {num_bytes / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
