"""The page of all ways in which a job can stand still, from the rows that tests judge."""

from __future__ import annotations

from collections.abc import Iterable

from tests.detectors.hangs.table import SECTIONS as HANGS
from tests.detectors.network.table import SECTIONS as NETWORK
from tests.detectors.stalls import Row
from zmon.detectors.hangs.limits import HangLimits

SECTIONS = {**HANGS, **NETWORK}
HEAD = """\
# How a job can stand still

This page lists what zmon reports about a job in which nothing moves although no rank has ended.
[endings.md](endings.md) has the jobs whose ranks ended, [runbooks.md](runbooks.md) says what to do about each cause,
and [glossary.md](glossary.md) explains the terms. The severity depends on what proves the hang:

| what proves the hang | severity |
|---|---|
| a process that ended or is stopped, a link that is down, or collectives that cannot match | critical at once |
| only silence, which may be a pause | a warning first; critical after {critical:g} s |
| only silence, where a pause healed before | info first; critical after {ratio:g} × that pause, at most {late:g} min |
| only silence, but the awaited ranks wait for their host, a server or a driver, unchanged for {proof:g} s | critical |
| only silence, but the awaited ranks work: they move data or change their phase | a warning for {moving:g} min |
| only silence, after the training | a warning after {finishing:g} s; critical after {late:g} min |

Ranks that a scheduler or Ctrl-Z suspended all at once, or that a debugger holds, are a warning first.

If the ranks prove nothing about each other, the cause is `unknown`, and the finding has all evidence.

In the tables below (`make generate` makes them from `tests/detectors/hangs/` and `tests/detectors/network/`: each row
is a test):

- *quiet* means that there is no finding, and *nobody* that the finding names no culprit.
- A job has four ranks on one host, unless a row or its section says otherwise. Ranks that a row does not mention wait
  in one collective. The ranks finished their last step 5 s ago, and their lease is 1.5 s, unless the row has other
  times.
- A *generator* produces batches for the ranks that train, and an *evaluator* evaluates beside them.
- In the sections about the network, each host has one rank. A *pair* is two hosts, and it is *cut* if no data passes
  between them. In “A host does not answer”, the ranks 2 and 3, and of six ranks also 4 and 5, are on hosts whose
  agents are silent.
- A note in “…” quotes the finding; “ … ” stands for words that are left out.
"""
TABLE = """
## {title}

| what happens | cause | severity | culprit | note |
|---|---|---|---|---|
"""


def hangs_page() -> str:
    """Return the page."""
    limits = HangLimits()
    head = HEAD.format(
        critical=limits.critical_seconds,
        proof=limits.proof_seconds,
        moving=limits.moving_at_most_seconds / 60,
        ratio=limits.critical_pause_ratio,
        finishing=limits.finishing_seconds,
        late=limits.critical_at_most_seconds / 60,
    )
    return head + "".join(table(title, rows) for title, rows in SECTIONS.items())


def table(title: str, rows: Iterable[Row]) -> str:
    """Return the section of these rows."""
    lines = (f"| {row.scene} | {' | '.join(_cells(row.due))} | {_note(row)} |\n" for row in rows)
    return TABLE.format(title=title) + "".join(lines)


def _cells(due: str) -> list[str]:
    """Return the cells of cause, severity and culprit."""
    cause, *severity_and_culprit = due.split(", ", 2)
    return [f"`{cause}`", *severity_and_culprit] if severity_and_culprit else ["quiet", "–", "–"]


def _note(row: Row) -> str:
    """Return the reason, and the words of the summary that the test expects."""
    quote = row.says.strip("; ")
    return "; ".join(filter(None, (row.note, quote and f"“{quote}”")))
