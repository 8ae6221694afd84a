"""The page of the frameworks that zmon was tried with, from `tests/frameworks/`: its table and its last results."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from textwrap import fill

from tests.frameworks.results import Result, read_results
from tests.frameworks.table import COLUMNS, ROWS, Row

HEAD = """\
# Frameworks that zmon was tried with

This page shows for each framework whether zmon sees its ranks, steps, phases, collectives, evaluations and checkpoints
correctly, without changes to the job. Each row is a job with two ranks on gloo. Not tried: NCCL and GPUs
([gpu.md](gpu.md)).

`make test-frameworks` runs each job twice under `zmon watch`, with the real library: once to its end, and once with
rank 1 stopped by SIGSTOP half-way. zmon's figures are compared with what the job counts by the framework's callbacks.
– means that the job has no such thing. The column *freeze* has the time from SIGSTOP to the finding, on two processors
that other work shared. `make generate` makes this page from `tests/frameworks/`.

"""
VERSIONS = """
## Versions

| jobs | packages | date |
|---|---|---|
"""


def frameworks_page() -> str:
    """Return the page."""
    results = read_results()
    return "".join([HEAD, *_table(results), *_notes(), *_columns(), VERSIONS, *_versions(results)])


def _table(results: dict[str, Result]) -> Iterator[str]:
    yield f"| job | {' | '.join(COLUMNS)} |\n|---|{'---|' * len(COLUMNS)}\n"
    for row in ROWS:
        result = results.get(row.name)
        if result is None:
            raise ValueError(f"{row.name} was never played: make test-frameworks ONLY={row.name}")
        cells = [_cell(row, result, column) for column in COLUMNS]
        yield f"| {row.title} | {' | '.join(cells)} |\n"


def _cell(row: Row, result: Result, column: str) -> str:
    if column in row.lacks:
        return "–"
    if result.not_run:
        return "not run"
    wrong = result.wrong[column]
    if wrong:
        return "wrong"
    return f"right, {result.freeze_seconds:g} s" if column == "freeze" and result.freeze_seconds else "right"


def _notes() -> Iterator[str]:
    yield "\n## What is wrong\n\n"
    lines = [_item(f"{row.title}, {column}: {reason}.") for row in ROWS for column, reason in row.wrong.items()]
    lines += [_item(f"{row.title} was not run: {row.not_run}.") for row in ROWS if row.not_run]
    yield from lines or ["Nothing.\n"]
    yield "\n## What differs from your jobs\n\n"
    yield "All jobs are small, have two ranks on one host, and one thread for each rank.\n\n"
    yield from (_item(f"{row.title}: {row.note}.") for row in ROWS if row.note)


def _item(text: str) -> str:
    """Return an item of a list, wrapped into lines."""
    return fill(f"- {text}", width=120, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False) + "\n"


def _columns() -> Iterator[str]:
    yield "\n## What right means\n\n| column | right if |\n|---|---|\n"
    yield from (f"| {column} | {meaning} |\n" for column, meaning in COLUMNS.items())


def _versions(results: dict[str, Result]) -> Iterator[str]:
    titles = defaultdict(list)  # by packages and date
    for row in ROWS:
        result = results[row.name]
        packages = ", ".join(f"{package} {version}" for package, version in result.versions.items())
        titles[packages or "–", result.date].append(row.title)
    for (packages, date), jobs in titles.items():
        yield f"| {'; '.join(jobs)} | {packages} | {date} |\n"
