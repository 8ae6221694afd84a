"""The page of the classes of failures, with the rows that tests/job/failures/test_failures.py judges."""

from __future__ import annotations

from textwrap import fill

from tests.job.failures.forms import Row
from tests.job.failures.rows import SECTIONS
from zmon.job.failures import classify
from zmon.job.failures.classes import CLASSES, FailureClass

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
reported a first end, a signal comes from the launcher. The *clue* is the line that decided; the tables show its first
{clue} characters.

## Classes

"""
TABLE = """
## {title}

| what happened, or the line that a rank wrote | class | the clue, if it is not that line |
|---|---|---|
"""
_MAX_CLUE = 100  # characters


def failures_page() -> str:
    """Return the page."""
    return (
        HEAD.format(clue=_MAX_CLUE)
        + "".join(map(_class, CLASSES))
        + "".join(_table(title, rows) for title, rows in SECTIONS.items())
    )


def _class(row: FailureClass) -> str:
    text = f"- `{row.name}`: {row.definition} **Next**: {row.next_step}"
    return fill(text, width=120, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False) + "\n"


def _table(title: str, rows: tuple[Row, ...]) -> str:
    lines = (f"| {_cell(row.scene)} | `{row.due}` | {_cell(_clue(row))} |\n" for row in rows)
    return TABLE.format(title=title) + "".join(lines)


def _clue(row: Row) -> str:
    clue = classify(row.clues).clue[:_MAX_CLUE]
    return "" if row.scene.strip("`").startswith(clue) else clue


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
