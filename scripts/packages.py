"""Build the packages of zmon: `python -m scripts.packages [FOLDER]`, or `make packages` (FOLDER is dist/).

There are three packages: `zmon-training`, `zmon-probe` with only the modules of a rank, and `zmon-lab` with the
laboratory, which needs `zmon-training`. A wheel is built from the source distribution of its package: if the source
distribution lacks a file, the build fails. All packages have a wheel without C, for every machine. The first two also
have a wheel with the C modules for this Python, if there is a compiler. pip prefers the wheel with C.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from scripts.rank_modules import rank_modules

PROJECT = Path(__file__).parents[1]
FOLDER = PROJECT / "dist"


def build_packages(folder: Path, room: Path) -> Iterator[Path]:
    """Build all packages into a folder and yield each file; `room` is an empty folder to work in."""
    sources = room / "zmon"
    copy_checkout(sources)
    yield from build(sources, folder)
    yield from build(copy_probe(sources, room / "zmon-probe"), folder)
    yield from build(copy_lab(sources, room / "zmon-lab"), folder, has_c=False)


def build(sources: Path, folder: Path, *, has_c: bool = True) -> Iterator[Path]:
    """Build the source distribution and the wheels of a source tree, and yield their files.

    `has_c`: the package has C modules, so it has a wheel for this Python if they can be compiled.
    """
    (sdist,) = _build("--sdist", sources, folder)
    yield sdist
    shutil.unpack_archive(sdist, sources.parent)  # Debian's Python 3.11.2 has no filters of tarfile
    unpacked = sources.parent / sdist.name.removesuffix(".tar.gz")
    yield from _build("--wheel", unpacked, folder, ZMON_PURE="1")
    if not has_c:
        return
    shutil.rmtree(unpacked / "build")
    (wheel,) = _build("--wheel", unpacked, folder)
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    if any(name.endswith(".so") for name in names):
        yield wheel
    else:
        wheel.unlink()  # it is for one platform, although it has no C
        print("packages: no wheel with C modules, because there is no C compiler or no Python.h", file=sys.stderr)


def copy_checkout(target: Path) -> None:
    """Copy the files that git tracks, and new files that it does not ignore. Build outputs are not copied."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=PROJECT, stdout=subprocess.PIPE, check=True).stdout.decode().split("\0")
    for name in filter(None, names):
        if (PROJECT / name).is_file():
            _copy(PROJECT / name, target / name)


def copy_probe(sources: Path, target: Path) -> Path:
    """Copy what the package for jobs is built from, and return its folder."""
    shutil.copytree(sources / "deploy/probe", target)
    probe_files = (path.relative_to(sources) for path in (sources / "zmon/probe").rglob("*") if path.is_file())
    further_files = map(Path, ("setup.py", "LICENSE", "zmon/__main__.py", "zmon/py.typed"))
    for name in {*rank_modules(sources), *probe_files, *further_files}:
        _copy(sources / name, target / name)
    return target


def copy_lab(sources: Path, target: Path) -> Path:
    """Copy what the package of the laboratory is built from, and return its folder."""
    shutil.copytree(sources / "lab", target / "lab")
    for name in ("deploy/lab/README.md", "deploy/lab/MANIFEST.in", "LICENSE"):
        _copy(sources / name, target / Path(name).name)
    settings = (sources / "deploy/lab/pyproject.toml").read_text(encoding="utf-8")
    # an editable installation finds lab/ in the checkout; here it lies beside the file
    settings = settings.replace('"../../lab"', '"lab"').replace('"../.."', '"."')
    (target / "pyproject.toml").write_text(settings, encoding="utf-8")
    return target


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, target)


def _build(kind: str, sources: Path, folder: Path, **environment: str) -> list[Path]:
    """Run the build frontend and return the new files. Its output is shown only if it fails."""
    before = set(folder.glob("*"))
    command = [sys.executable, "-m", "build", "--no-isolation", kind, "--outdir", str(folder), str(sources)]
    done = subprocess.run(command, cwd=sources, env=os.environ | environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{done.stdout}{done.stderr}packages: cannot build {sources.name} ({kind})")
    return sorted(set(folder.glob("*")) - before)


if __name__ == "__main__":
    out = Path(sys.argv[1]).absolute() if len(sys.argv) > 1 else FOLDER
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as temporary:
        for path in build_packages(out, Path(temporary)):
            print(path)
