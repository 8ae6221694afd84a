"""Rows of requests whose answers need no golden: each has the status, the type and the values that decide it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from zmon.schema.api import Problem


@dataclass(frozen=True)
class Row:
    """One request: `values` picks from the decoded answer what must equal `expected`. An answer of type str is text."""

    path: str
    status: int
    type: type
    values: Callable[[Any], object]
    expected: object


def problem(path: str, status: int, error: str) -> Row:
    """Return the row of a request that is answered with an error."""
    return Row(path, status, Problem, lambda answer: answer.error, error)


async def check_rows(client: Any, rows: Iterable[Row]) -> None:
    """Send each request; one error lists all answers that differ."""
    differences = [line for row in rows if (line := await _difference(client, row))]
    assert not differences, "\n".join(differences)


async def _difference(client: Any, row: Row) -> str:
    """Return how an answer differs from its row, or nothing."""
    async with client.get(row.path) as answer:
        body, is_json = await answer.read(), answer.content_type == "application/json"
    if answer.status != row.status or is_json != (row.type is not str):
        return f"{row.path}: {answer.status} {body[:300]!r}"
    if not is_json:
        now = row.values(body.decode())
    else:
        decoded = msgspec.json.decode(body, type=row.type)
        if json.loads(msgspec.json.encode(decoded)) != json.loads(body):
            return f"{row.path}: {row.type.__name__} has not all of {body[:300]!r}"
        now = row.values(decoded)
    return "" if now == row.expected else f"{row.path}: {now!r} instead of {row.expected!r}"
