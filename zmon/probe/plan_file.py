"""Writes the trainer's plan to a file beside the boxes of the job's ranks. The agent reads this file.

The file appears under its name complete or not at all. Its size is bounded: if a rank has many tables, only the first
names and the number of tables are stored. If the file would still be too large, it has no names. The JSON has a list
for each column of `zmon.schema.plan.Plan`.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, SupportsFloat, cast

from zmon.errors import BoxUnavailable, UsageError
from zmon.schema.names import SCHEMA
from zmon.schema.plan import MAX_AMOUNT, MAX_PLAN_BYTES, PLAN_FILE

COUNTS = ("lookups", "sent_bytes", "received_bytes", "memory_bytes")
FIELDS = (*COUNTS, "seconds", "tables")
_MAX_NAMES_BYTES = 1 << 16  # of the table names of all ranks together
_MAX_NAME_LENGTH = 40
_MAX_TOTALS = 16
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def write_plan(
    box: Path,
    run_uid: str,
    num_ranks: int,
    ranks: Sequence[Mapping[str, Any]] | None,
    totals: Mapping[str, float],
    steps: int | None = None,
) -> None:
    """Write the plan beside `box`. Raises UsageError if it is not valid, BoxUnavailable if the write fails."""
    body = encode_plan(run_uid, num_ranks, ranks, totals, steps)
    path = box.with_name(PLAN_FILE)
    temporary = path.with_name(f".{PLAN_FILE}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with open(os.open(temporary, flags, 0o600), "wb") as file:  # noqa: PTH123 - a descriptor
                file.write(body)
            temporary.rename(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise BoxUnavailable(f"cannot write the plan {path}", error.strerror or str(error)) from error


def encode_plan(
    run_uid: str,
    num_ranks: int,
    ranks: Sequence[Mapping[str, Any]] | None,
    totals: Mapping[str, float],
    steps: int | None = None,
) -> bytes:
    """Encode the content of the file; raises UsageError if the plan is not valid."""
    if ranks is None:
        if steps is None or totals:
            raise _refusal("ranks is missing", "a plan has an entry for each rank, or only the number of steps")
        ranks = ()
    elif not isinstance(ranks, Sequence):
        raise _refusal(f"ranks is a {type(ranks).__name__}", "it must be a list with an entry for each rank")
    elif len(ranks) != num_ranks:
        raise _refusal(f"ranks has {len(ranks)} entries", f"the job has {num_ranks} ranks")
    if len(totals) > _MAX_TOTALS:
        raise _refusal(f"there are {len(totals)} totals", f"at most {_MAX_TOTALS} are allowed")
    names_bytes = _MAX_NAMES_BYTES // num_ranks
    rows = [_row(f"ranks[{number}]", entry, names_bytes) for number, entry in enumerate(ranks)]
    plan: dict[str, Any] = {name: [row[name] for row in rows] for name in (*FIELDS, "num_tables")}
    names = {name: _printable(name) for name in totals}
    plan["totals"] = {names[name]: _number(f"the total {names[name]}", totals[name], -math.inf) for name in totals}
    plan["steps"] = None if steps is None else round(_number("steps", steps, 1.0))
    content = {"schema": SCHEMA, "run_uid": run_uid, "plan": plan}
    body = _json(content)
    if len(body) > MAX_PLAN_BYTES:
        plan["tables"] = [[] for _ in rows]
        body = _json(content)
    if len(body) > MAX_PLAN_BYTES:
        raise _refusal(f"{num_ranks} ranks take {len(body):,} bytes", f"at most {MAX_PLAN_BYTES:,} are allowed")
    return body


def _row(label: str, entry: Mapping[str, Any], names_bytes: int) -> dict[str, Any]:
    """Return the values of one rank by column; `label` names the entry in messages. Raises UsageError."""
    if not isinstance(entry, Mapping):
        raise _refusal(f"{label} is a {type(entry).__name__}", f"it must be a dictionary with {', '.join(FIELDS)}")
    if not entry.keys() <= set(FIELDS):
        unknown = _printable(str(next(iter(entry.keys() - set(FIELDS)))))
        raise _refusal(f"{label} has the unknown key {unknown}", f"the keys are {', '.join(FIELDS)}")
    row: dict[str, Any] = {name: _count(f"{label}[{name!r}]", entry.get(name)) for name in COUNTS}
    seconds, seconds_label = entry.get("seconds"), f"{label}['seconds']"
    row["seconds"] = None if seconds is None else float(f"{_number(seconds_label, seconds):.6g}")
    tables = entry.get("tables")
    if tables is None:
        return {**row, "tables": [], "num_tables": None}
    if isinstance(tables, str) or not isinstance(tables, Sequence):
        raise _refusal(f"{label}['tables'] is a {type(tables).__name__}", "it must be a list of names")
    return {**row, "tables": _names(tables, names_bytes), "num_tables": len(tables)}


def _names(tables: Iterable[Any], max_bytes: int) -> list[str]:
    """Return the first names, as many as fit into these bytes, but at least one. Raises UsageError."""
    names: list[str] = []
    for table in tables:
        if not isinstance(table, str | int):
            raise _refusal(f"a table is a {type(table).__name__}", "it must be a name")
        name = _printable(str(table))
        max_bytes -= len(_json(name)) + 1  # with its comma
        if max_bytes < 0 and names:
            break
        names.append(name)
    return names


def _printable(name: str) -> str:
    """Return the beginning of a name, with "?" for what cannot be printed, or encoded: half of a surrogate pair."""
    return "".join(letter if letter.isprintable() else "?" for letter in name[:_MAX_NAME_LENGTH])


def _count(label: str, value: object) -> int | None:
    return None if value is None else round(_number(label, value))


def _number(label: str, value: object, minimum: float = 0.0) -> float:
    """Return the value as a finite number. Raises UsageError, which names it by `label`."""
    try:
        number = math.nan if isinstance(value, str | bytes) else float(cast(SupportsFloat, value))
    except Exception:  # the trainer's own types may raise anything
        number = math.nan
    if not (math.isfinite(number) and minimum <= number <= MAX_AMOUNT):
        least = f"{minimum:g} or more, and " if math.isfinite(minimum) else ""
        raise _refusal(f"{label} is not a valid amount", f"it must be a number, {least}at most {MAX_AMOUNT:g}")
    return number


def _refusal(problem: str, reason: str) -> UsageError:
    return UsageError(f"zmon.plan(): {problem}", reason, "zmon ignores this plan; correct the call")


def _json(value: Any) -> bytes:
    return _ENCODER.encode(value).encode()
