"""What each job prints and counts without zmon, recorded once in the folder `golden`.

A golden holds for the torch it was recorded with, whose warnings and line numbers are in it; with another torch the
tests run the job without zmon instead. Losses are compared with a tolerance, because processors round differently,
and line numbers are left out, because they change with every comment. `make test-all` runs every job without zmon and
compares it with its golden. Where a change is meant: delete the golden and run the slow tests of this folder twice.
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

from tests.places import REPOSITORY

FOLDER = Path(__file__).with_name("golden")
LINE_NUMBER = re.compile(r"(?<=\.py:)\d+|(?<=, line )\d+")
LOSS = re.compile(r"\d+\.\d{4}\b")
TOLERANCE = 0.002  # of losses around 1, printed with four decimals; of larger ones relative to them


@dataclass(frozen=True)
class Outcome:
    """One run of a job, from outside."""

    exit_code: int
    stdout: list[str]
    stderr: list[str]
    tallies: dict[int, dict[str, Any]]

    @property
    def done(self) -> dict[int, tuple[Any, Any]]:
        """Steps and collectives by rank."""
        return {rank: (tally["steps"], tally["ops"]) for rank, tally in self.tallies.items()}


def lines(text: str) -> list[str]:
    """With the same paths in every checkout. What Python says of spawned workers differs from run to run."""
    for folder, name in ((Path(torch.__file__).parent, "torch"), (REPOSITORY, "repository")):
        text = text.replace(str(folder), name)
    return [line for line in text.splitlines() if "resource_tracker" not in line]


def without_losses(printed: Iterable[str]) -> list[str]:
    """Each line with its losses left out."""
    return [LOSS.sub("LOSS", line) for line in printed]


def without_line_numbers(printed: Iterable[str]) -> list[str]:
    """Tracebacks and warnings as they are wherever the line lies in its file."""
    return [LINE_NUMBER.sub("LINE", line) for line in printed]


def losses(printed: Iterable[str]) -> list[float]:
    """All of them, in the order of the lines."""
    return [float(loss) for line in sorted(printed, key=lambda line: LOSS.sub("", line)) for loss in LOSS.findall(line)]


def assert_same_output(these: Outcome, those: Outcome) -> None:
    """The same lines in any order, for several ranks write them; the losses in them to rounding."""
    assert sorted(without_losses(these.stdout)) == sorted(without_losses(those.stdout))
    assert losses(these.stdout) == pytest.approx(losses(those.stdout), abs=TOLERANCE, rel=TOLERANCE)
    assert sorted(without_line_numbers(these.stderr)) == sorted(without_line_numbers(those.stderr))


def read(name: str) -> Outcome | None:
    """The golden of a job; None where it was recorded with another torch, or never."""
    file = FOLDER / f"{name}.json"
    if not file.exists():
        return None
    kept = json.loads(file.read_text())
    if kept["torch"] != torch.__version__:
        return None
    tallies = {int(rank): tally for rank, tally in kept["tallies"].items()}
    return Outcome(kept["exit_code"], kept["stdout"], kept["stderr"], tallies)


def check(name: str, plain: Outcome) -> None:
    """Compare a run without zmon with its golden, and write the golden where there is none."""
    golden = read(name)
    if golden is None and (FOLDER / f"{name}.json").exists():
        warnings.warn(f"the golden of {name} is of another torch: delete it to record it with this one", stacklevel=1)
        return
    if golden is None:
        write(name, plain)
        pytest.fail(f"the golden of {name} is new: look at it, and run the test again")
    assert plain.exit_code == golden.exit_code
    assert_same_output(plain, golden)
    assert plain.done == golden.done


def write(name: str, plain: Outcome) -> None:
    """Record it, without what differs from run to run: process ids and times."""
    FOLDER.mkdir(exist_ok=True)
    tallies = {rank: {"steps": steps, "ops": ops} for rank, (steps, ops) in plain.done.items()}
    kept = {
        "torch": torch.__version__,
        "exit_code": plain.exit_code,
        "stdout": plain.stdout,
        "stderr": plain.stderr,
        "tallies": tallies,
    }
    (FOLDER / f"{name}.json").write_text(json.dumps(kept, indent=1) + "\n")
