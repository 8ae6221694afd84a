"""Plays jobs of other frameworks under `zmon watch`, and keeps the results for `docs/frameworks.md`.

Each row of `table.py` runs twice in an environment of its own: once to its end, once with a rank frozen half-way. Run
it with `make test-frameworks [ONLY=name]`, then `make generate`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from tests.frameworks.environments import NotInstallable, prepared, versions
from tests.frameworks.judging import judged, judged_freeze
from tests.frameworks.notebook import executed
from tests.frameworks.results import Result, surprises, write_result
from tests.frameworks.running import NoRun, run
from tests.frameworks.table import ENVIRONMENTS, NOTEBOOK, ROWS, Row


def play(row: Row, folder: Path) -> Result:
    """Return the result of a row, whose runs leave their files in the folder."""
    environment = ENVIRONMENTS[row.environment]
    date = f"{datetime.now(UTC):%Y-%m-%d}"
    try:
        programs = prepared(row.environment, environment)
    except NotInstallable as reason:
        return Result(row.name, date, {}, {}, not_run=f"not installable: {reason}")
    installed = versions(programs, environment)
    try:
        if row is NOTEBOOK:
            return Result(row.name, date, installed, {"freeze": executed(programs, folder)})
        wrong = judged(row, run(row, programs, folder / "whole"))
        frozen = run(row, programs, folder / "frozen", freeze=True)
    except NoRun as reason:
        return Result(row.name, date, installed, {}, not_run=str(reason))
    seconds = frozen.named_seconds and round(frozen.named_seconds, 1)
    return Result(row.name, date, installed, {**wrong, "freeze": judged_freeze(frozen)}, seconds)


def main() -> None:
    """Play the rows, print a line for each and for each surprise, and exit with code 1 if there is one."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", help="words that the names of rows begin with, separated by commas")
    parser.add_argument("--keep", type=Path, help="folder for the files of the runs; without it they are deleted")
    options = parser.parse_args()
    starts = tuple((options.only or "").split(","))
    lines = []
    with tempfile.TemporaryDirectory(prefix="zf-") as temporary:
        for row in (row for row in ROWS if row.name.startswith(starts)):
            began = time.monotonic()
            result = play(row, (options.keep or Path(temporary)) / row.name)
            write_result(result)
            bad = [column for column, text in result.wrong.items() if text]
            summary = result.not_run or (f"wrong: {', '.join(bad)}" if bad else "right")
            print(f"{row.name}: {summary} ({time.monotonic() - began:.0f} s)", flush=True)
            lines += surprises(row, result)
    print("\n".join(lines) or "as the table says")
    sys.exit(1 if lines else 0)


if __name__ == "__main__":
    main()
