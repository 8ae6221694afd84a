"""The page of the classes of failures, with the rows that tests/job/failures/test_failures.py judges."""

from __future__ import annotations

from textwrap import fill

from tests.job.failures.forms import Row
from tests.job.failures.rows import SECTIONS
from zmon.job.failures import classify
from zmon.job.failures.classes import CLASSES, FailureClass

HEAD = """\
# Why a launch failed

zmon gives each failed launch a *class*, which says why it failed. This page lists the classes with what to do next, and
then examples of each. The class comes from the first of these sources that has one:

1. the kernel or the scheduler
2. the last words of a rank
3. the last exception in the output of a rank
4. the last lines of a library or launcher
5. the exit status

An error that was followed by two more steps did not end the training, so it is ignored. A lost connection, a timeout or
a signal may follow from the failure of another rank, so any other exception of the same launch takes precedence. A
signal after the first end that the launcher reported comes from the launcher. The *clue* is the line that decided; the
tables show its first {clue} characters. `make generate` makes this page from `zmon/job/failures/classes.py` and
`tests/job/failures/`: each row of the examples is a test.

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
