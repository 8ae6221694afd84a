"""Runs the tests with other versions of Python and torch, and prints the table of docs/torch.md.

Run it with `make test-matrix`. Each row has its own environment in .matrix/, which is created once. Delete the
directory to create all of them again. A torch that needs CUDA packages is not installed, because they are gigabytes and
the tests need no GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

PROJECT = Path(__file__).parents[1]
MATRIX = PROJECT / ".matrix"
CUDA = ("nvidia-", "cuda-", "triton")  # prefixes of packages that only a build for GPUs needs
NEWEST = "newest"
TEST_SECONDS = 900.0
# The tests that depend on torch, and tests that run without it.
TORCH_TESTS = ("tests/probe", "tests/box", "tests/agent/test_gathered_evidence.py", "tests/job/test_flight.py")
NO_TORCH_TESTS = (
    *("tests/agent/sources", "tests/box", "tests/cli/top", "tests/detectors", "tests/doctor", "tests/hub"),
    *("tests/metrics", "tests/offline/analyze", "tests/offline/compare", "tests/steplog"),
)
_COUNTS = ("tests", "failures", "errors", "skipped")  # attributes of pytest's JUnit XML
_VERSIONS = """
import platform
from importlib.metadata import distributions
torch = [distribution.version for distribution in distributions(name="torch")]
print(platform.python_version(), *torch[:1] or ["none"])
"""


class NotRun(Exception):
    """A row that could not run; its text has the reason and appears in the table."""


@dataclass(frozen=True)
class Row:
    """One environment with its tests."""

    python: str  # such as 3.11
    torch: str | None  # a version, NEWEST, or None for no torch
    tests: tuple[str, ...]

    @property
    def folder(self) -> Path:
        """The directory of its environment."""
        return MATRIX / f"python{self.python}-torch-{self.torch or 'none'}"


@dataclass(frozen=True)
class Result:
    """The result of one row: versions and numbers of tests."""

    python: str  # its version
    torch: str  # its version, or `none`
    passed: int
    failed: int  # errors included
    skipped: int
    seconds: float


def pinned_torch() -> str:
    """Return the version of torch in constraints.txt."""
    lines = (PROJECT / "constraints.txt").read_text().splitlines()
    return next(line.removeprefix("torch==") for line in lines if line.startswith("torch=="))


ROWS = (
    Row("3.11", pinned_torch(), TORCH_TESTS),
    Row("3.11", NEWEST, TORCH_TESTS),
    Row("3.12", None, NO_TORCH_TESTS),
)


def interpreter(version: str) -> str:
    """Return a Python of this version, from PATH or pyenv. Raises NotRun if there is none."""
    pyenv = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    for candidate in (f"python{version}", *map(str, pyenv)):
        try:
            done = subprocess.run([candidate, "-c", "import ensurepip"], capture_output=True, check=False)
        except OSError:
            continue
        if done.returncode == 0:
            return candidate
    raise NotRun(f"this machine has no Python {version}")


def pip(folder: Path, *words: str) -> str:
    """Run pip in an environment and return its output. Raises NotRun with pip's last line."""
    command = [str(folder / "bin/python"), "-m", "pip", "--disable-pip-version-check", *words]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, encoding="utf-8", check=False)
    if done.returncode != 0:
        raise NotRun(f"pip: {(done.stderr.strip().splitlines() or ['it failed'])[-1]}")
    return done.stdout


def newest_torch(folder: Path) -> str:
    """Return the newest torch that installs without CUDA packages. Raises NotRun if that is the pinned one."""
    versions = pip(folder, "index", "versions", "torch").partition("Available versions:")[2]
    newer: list[str] = []
    for version in versions.partition("\n")[0].replace(" ", "").split(","):
        if version.partition("+")[0] == pinned_torch():
            break
        report = folder / "torch.json"
        pip(folder, "install", "--quiet", "--dry-run", "--report", str(report), f"torch=={version}")
        names = [item["metadata"]["name"].lower() for item in json.loads(report.read_text())["install"]]
        if not any(name.startswith(CUDA) for name in names):
            return version
        newer.append(version)
    cuda_only = f"{', '.join(newer)} need CUDA packages; " if newer else ""
    raise NotRun(f"{cuda_only}the newest torch for CPUs is {pinned_torch()}")


def packages(torch: str | None) -> Iterator[str]:
    """Yield the arguments of `pip install` for a row: this checkout, and the test tools of its extra `dev`."""
    extras = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    yield from ("--editable", f".[{'' if torch is None else 'trainer,'}dashboard,parquet,top,mcp]")
    yield from (tool for tool in extras["dev"] if not tool.startswith("zmon-training["))
    if torch is not None:
        yield f"torch=={torch}"


def prepare(row: Row) -> Path:
    """Return the environment of a row; create it if it does not exist. Raises NotRun."""
    ready = row.folder / "ready"
    if not ready.exists():
        subprocess.run([interpreter(row.python), "-m", "venv", "--clear", row.folder], check=True)
        torch = newest_torch(row.folder) if row.torch == NEWEST else row.torch
        pip(row.folder, "install", "--quiet", *packages(torch))
        ready.touch()
    return row.folder


def select_tests(row: Row, tests: Sequence[str]) -> tuple[str, ...]:
    """Return the arguments of pytest: `tests` from the command line, or the unit tests of the row."""
    return tuple(tests) or ("-m", "unit", *row.tests)


def run(row: Row, tests: Sequence[str]) -> Result:
    """Prepare the environment of a row and run its tests. Raises NotRun."""
    python = prepare(row) / "bin/python"
    report = row.folder / "results.xml"
    report.unlink(missing_ok=True)
    options = ("-q", "-p", "no:cacheprovider", f"--junitxml={report}", *select_tests(row, tests))
    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    with (row.folder / "output.txt").open("w") as output:
        try:
            subprocess.run(
                ["nice", "-n", "10", str(python), "-m", "pytest", *options],
                cwd=PROJECT,
                env={**os.environ, "PATH": path},
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=TEST_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise NotRun(f"stopped after {TEST_SECONDS:g} s") from None
    if not report.exists():
        raise NotRun(f"pytest did not run: see {report.with_name('output.txt').relative_to(PROJECT)}")
    return read_result(python, report)


def read_result(python: Path, report: Path) -> Result:
    """Return the versions of an environment, and the numbers in the JUnit XML of its tests."""
    suites = ElementTree.parse(report).getroot().iter("testsuite")
    counts = [{name: float(suite.get(name, 0)) for name in (*_COUNTS, "time")} for suite in suites]
    total, failures, errors, skipped = (int(sum(count[name] for count in counts)) for name in _COUNTS)
    versions = subprocess.run([python, "-c", _VERSIONS], capture_output=True, text=True, check=True).stdout
    python_version, torch_version = versions.split()
    return Result(
        python_version,
        torch_version,
        passed=total - failures - errors - skipped,
        failed=failures + errors,
        skipped=skipped,
        seconds=sum(count["time"] for count in counts),
    )


def main() -> None:
    """Print the table on stdout and progress on stderr; exit with code 1 if a test failed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tests", default="", help="paths and options of pytest for every row, in one word")
    failed = False
    tests = shlex.split(parser.parse_args().tests)
    print(f"{datetime.now(UTC):%Y-%m-%d}\n\n| Python | torch | tests | passed | failed | skipped | seconds |")
    print("|---|---|---|---|---|---|---|", flush=True)
    for row in ROWS:
        print(f"test-matrix: Python {row.python}, torch {row.torch or 'none'}", file=sys.stderr)
        command = f"`{' '.join(select_tests(row, tests))}`"
        try:
            result = run(row, tests)
        except NotRun as reason:
            print(f"| {row.python} | {row.torch or 'none'} | not run: {reason} | | | | |", flush=True)
            continue
        failed = failed or result.failed > 0
        counts = f"{result.passed:,} | {result.failed:,} | {result.skipped:,} | {result.seconds:.0f}"
        print(f"| {result.python} | {result.torch} | {command} | {counts} |", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
