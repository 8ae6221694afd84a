"""The page of the classes of failures, with the rows that tests/job/failures/test_failures.py judges."""

from __future__ import annotations

from tests.job.failures.forms import Row
from tests.job.failures.rows import SECTIONS
from zmon.job.failures import classify
from zmon.job.failures.classes import CLASSES

HEAD = """\
# Why a launch failed

Generated from `zmon/job/failures/classes.py` and `tests/job/failures/*_rows.py` by `make generate`. Each row of the
second part is a test.

The class of a failure comes from the first of these sources that has one:

1. the kernel or the scheduler
2. the last words of a rank
3. the last exception in the output of a rank
4. the last lines of a library or launcher
5. the exit status

An error before two further steps did not end the training, so it is ignored. A lost connection, a timeout or a signal
may follow from the failure of another rank, so another exception of the same launch comes first. After the launcher has
reported a first end, a signal comes from the launcher.

## Classes

| class | definition | next step |
|---|---|---|
"""
TABLE = """
## {title}

| what happened | class | the clue |
|---|---|---|
"""
_MAX_CLUE = 100  # characters


def failures_page() -> str:
    """Return the page."""
    classes = "".join(f"| `{row.name}` | {row.definition} | {row.next_step} |\n" for row in CLASSES)
    return HEAD + classes + "".join(_table(title, rows) for title, rows in SECTIONS.items())


def _table(title: str, rows: tuple[Row, ...]) -> str:
    lines = (f"| {_cell(row.scene)} | `{row.due}` | {_cell(classify(row.clues).clue[:_MAX_CLUE])} |\n" for row in rows)
    return TABLE.format(title=title) + "".join(lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
