"""Record the outcome of each job without zmon in the directory `golden`, and compare later runs with it.

A golden is valid for the torch that it was recorded with, whose warnings and line numbers are in it. With another torch
the tests run the job without zmon instead. Losses are compared with a tolerance, because processors round differently.
Line numbers are left out, because they change with every comment. `make test-all` runs every job without zmon and
compares it with its golden. To accept a change, delete the golden and run the slow tests of this folder twice.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.golden.compare import pretty
from tests.places import REPOSITORY

FOLDER = Path(__file__).with_name("golden")
LINE_NUMBER = re.compile(r"(?<=\.py:)\d+|(?<=, line )\d+")
LOSS = re.compile(r"\d+\.\d{4}\b")
TOLERANCE = 0.002  # absolute for losses around 1, which are printed with four decimals; relative for larger ones


@dataclass(frozen=True)
class Outcome:
    """The outcome of one run of a job, seen from outside."""

    exit_code: int
    stdout: list[str]
    stderr: list[str]
    tallies: dict[int, dict[str, Any]]

    @property
    def done(self) -> dict[int, tuple[Any, Any]]:
        """The steps and collectives by rank."""
        return {rank: (tally["steps"], tally["ops"]) for rank, tally in self.tallies.items()}


def lines(text: str) -> list[str]:
    """Return the lines of an output with the same paths in every checkout.

    Python's messages about spawned workers are left out, since they differ from run to run.
    """
    for folder, name in ((Path(torch.__file__).parent, "torch"), (REPOSITORY, "repository")):
        text = text.replace(str(folder), name)
    return [line for line in text.splitlines() if "resource_tracker" not in line]


def without_losses(printed: Iterable[str]) -> list[str]:
    """Return the lines without their losses."""
    return [LOSS.sub("LOSS", line) for line in printed]


def without_line_numbers(printed: Iterable[str]) -> list[str]:
    """Return the lines of tracebacks and warnings without line numbers."""
    return [LINE_NUMBER.sub("LINE", line) for line in printed]


def losses(printed: Iterable[str]) -> list[float]:
    """Return all losses, in the order of the lines."""
    return [float(loss) for line in sorted(printed, key=lambda line: LOSS.sub("", line)) for loss in LOSS.findall(line)]


def assert_same_output(actual: Outcome, expected: Outcome) -> None:
    """Check that the lines are equal in any order, since several ranks write them, and the losses up to rounding."""
    assert sorted(without_losses(actual.stdout)) == sorted(without_losses(expected.stdout))
    assert losses(actual.stdout) == pytest.approx(losses(expected.stdout), abs=TOLERANCE, rel=TOLERANCE)
    assert sorted(without_line_numbers(actual.stderr)) == sorted(without_line_numbers(expected.stderr))


def read(name: str) -> Outcome | None:
    """Return the golden of a job, or None if there is none for this torch."""
    file = FOLDER / f"{name}.json"
    if not file.exists():
        return None
    golden = json.loads(file.read_text())
    if golden["torch"] != torch.__version__:
        return None
    tallies = {int(rank): tally for rank, tally in golden["tallies"].items()}
    return Outcome(golden["exit_code"], golden["stdout"], golden["stderr"], tallies)


def check(name: str, plain: Outcome) -> None:
    """Compare a run without zmon with its golden, or write the golden if there is none."""
    golden = read(name)
    if golden is None and (FOLDER / f"{name}.json").exists():
        warnings.warn(f"the golden of {name} is of another torch: delete it to record it with this one", stacklevel=1)
        return
    if golden is None:
        write(name, plain)
        pytest.fail(f"the golden of {name} is new: review it, and run the test again")
    assert plain.exit_code == golden.exit_code
    assert_same_output(plain, golden)
    assert plain.done == golden.done


def write(name: str, plain: Outcome) -> None:
    """Record a golden, without process ids and times, which differ from run to run."""
    FOLDER.mkdir(exist_ok=True)
    tallies = {rank: {"steps": steps, "ops": ops} for rank, (steps, ops) in plain.done.items()}
    golden = {
        "torch": torch.__version__,
        "exit_code": plain.exit_code,
        "stdout": plain.stdout,
        "stderr": plain.stderr,
        "tallies": tallies,
    }
    (FOLDER / f"{name}.json").write_text(pretty(golden) + "\n")
