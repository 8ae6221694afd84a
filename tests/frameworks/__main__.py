"""Play jobs of other frameworks under `zmon watch`, and keep the results for `docs/frameworks.md`.

Each row of `table.py` runs twice in the environment of its framework: once to its end, once with a rank frozen
half-way. Run `make test-frameworks [ONLY=name]`, then `make generate`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from tests.frameworks.environments import NotInstallable, prepare, versions
from tests.frameworks.judging import judge, judge_freeze
from tests.frameworks.notebook import execute
from tests.frameworks.results import Result, surprises, write_result
from tests.frameworks.running import NoRun, run
from tests.frameworks.table import ENVIRONMENTS, NOTEBOOK, ROWS, Row


def play(row: Row, folder: Path) -> Result:
    """Run the job of a row twice, with its files in the folder, and return the result."""
    environment = ENVIRONMENTS[row.environment]
    date = f"{datetime.now(UTC):%Y-%m-%d}"
    try:
        programs = prepare(row.environment, environment)
    except NotInstallable as reason:
        return Result(row.name, date, versions={}, wrong={}, not_run=f"not installable: {reason}")
    installed = versions(programs, environment)
    try:
        if row is NOTEBOOK:
            return Result(row.name, date, installed, {"freeze": execute(programs, folder)})
        wrong = judge(row, run(row, programs, folder / "whole"))
        frozen = run(row, programs, folder / "frozen", freeze=True)
    except NoRun as reason:
        return Result(row.name, date, installed, wrong={}, not_run=str(reason))
    seconds = None if frozen.named_seconds is None else round(frozen.named_seconds, 1)
    return Result(row.name, date, installed, {**wrong, "freeze": judge_freeze(frozen)}, seconds)


def main() -> None:
    """Play the rows, print a line for each and for each surprise, and exit with code 1 if there is one."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", help="words that the names of rows begin with, separated by commas")
    parser.add_argument("--keep", type=Path, help="folder for the files of the runs; without it they are deleted")
    options = parser.parse_args()
    prefixes = tuple((options.only or "").split(","))
    unexpected = []
    with tempfile.TemporaryDirectory(prefix="zf-") as temporary:
        for row in (row for row in ROWS if row.name.startswith(prefixes)):
            began = time.monotonic()
            result = play(row, (options.keep or Path(temporary)) / row.name)
            write_result(result)
            bad = [column for column, text in result.wrong.items() if text]
            summary = result.not_run or (f"wrong: {', '.join(bad)}" if bad else "right")
            print(f"{row.name}: {summary} ({time.monotonic() - began:.0f} s)", flush=True)
            unexpected += surprises(row, result)
    print("\n".join(unexpected) or "as the table says")
    sys.exit(1 if unexpected else 0)


if __name__ == "__main__":
    main()
