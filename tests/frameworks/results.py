"""The result of the last play of each row, in `results.json`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from tests.frameworks.table import COLUMNS, ROWS, Row

FILE = Path(__file__).with_name("results.json")
RIGHT = ""


@dataclass(frozen=True)
class Result:
    """The result of the last play of a row."""

    name: str
    date: str  # such as 2026-11-27
    versions: dict[str, str]  # by package
    wrong: dict[str, str]  # by column that was judged: what is wrong, or RIGHT
    freeze_seconds: float | None = None  # until the frozen rank was named
    not_run: str = ""  # the reason why the row did not run


def read_results() -> dict[str, Result]:
    """Return the results by the name of their row."""
    results = msgspec.json.decode(FILE.read_bytes(), type=list[Result]) if FILE.exists() else []
    return {result.name: result for result in results}


def write_result(result: Result) -> None:
    """Replace the result of the same row. The file has the order of the table, and a line for each row."""
    results = {**read_results(), result.name: result}
    lines = [msgspec.json.encode(results[row.name]) for row in ROWS if row.name in results]
    FILE.write_bytes(b"[\n" + b",\n".join(lines) + b"\n]\n")


def surprises(row: Row, result: Result) -> list[str]:
    """Return a line for each cell that is wrong and the table has no reason for it, or is right and it has one."""
    if row.not_run or result.not_run:
        if row.not_run and result.not_run:
            return []
        return [f"{row.name}: {result.not_run or 'it runs, and the table has a reason why not'}"]
    lines = []
    for column in COLUMNS:
        if column in row.lacks:
            continue
        wrong = result.wrong.get(column, "it was not judged")
        if wrong and column not in row.wrong:
            lines.append(f"{row.name}, {column}: wrong: {wrong}")
        if not wrong and column in row.wrong:
            lines.append(f"{row.name}, {column}: right, but the table has a reason why it is wrong")
    return lines
