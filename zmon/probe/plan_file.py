"""The trainer's plan, written beside the boxes of its ranks for the agent to hand on.

Put under its name whole, or not at all. Of bounded size: where tables are many, the first names that a rank is given
stay, and how many there are. The JSON has a list for each column of `planned.Plan`.
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
from zmon.schema.plan import MOST_AMOUNT, MOST_PLAN_BYTES, PLAN_FILE

COUNTS = ("lookups", "sent_bytes", "received_bytes", "memory_bytes")
FIELDS = (*COUNTS, "seconds", "tables")
_FIELDS = frozenset(FIELDS)
_NAMES_BYTES = 1 << 16  # of all ranks' tables together
_NAME_LENGTH = 40
_MOST_TOTALS = 16
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def write_plan(
    box: Path, run_uid: str, num_ranks: int, ranks: Sequence[Mapping[str, Any]], totals: Mapping[str, float]
) -> None:
    """Write it beside that box. Raises UsageError for what is no plan, BoxUnavailable where there is no room."""
    body = encoded(run_uid, num_ranks, ranks, totals)
    path = box.with_name(PLAN_FILE)
    new = path.with_name(f".{PLAN_FILE}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with open(os.open(new, flags, 0o600), "wb") as file:  # noqa: PTH123 - a descriptor
                file.write(body)
            new.rename(path)
        except BaseException:
            new.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise BoxUnavailable(f"cannot write the plan {path}", error.strerror or str(error)) from error


def encoded(run_uid: str, num_ranks: int, ranks: Sequence[Mapping[str, Any]], totals: Mapping[str, float]) -> bytes:
    """The content of the file. Raises UsageError for what is no plan."""
    if not isinstance(ranks, Sequence):
        raise _refused(f"ranks is a {type(ranks).__name__}", "it must be a list with an entry for each rank")
    if len(ranks) != num_ranks:
        raise _refused(f"ranks has {len(ranks)} entries", f"the job has {num_ranks} ranks")
    if len(totals) > _MOST_TOTALS:
        raise _refused(f"there are {len(totals)} totals", f"{_MOST_TOTALS} is the most")
    room = _NAMES_BYTES // max(num_ranks, 1)
    rows = [_row(f"ranks[{number}]", told, room) for number, told in enumerate(ranks)]
    plan: dict[str, Any] = {name: [row[name] for row in rows] for name in (*FIELDS, "num_tables")}
    plan["totals"] = {
        name[:_NAME_LENGTH]: _number(name[:_NAME_LENGTH], value, -math.inf) for name, value in totals.items()
    }
    body = _json({"schema": SCHEMA, "run_uid": run_uid, "plan": plan})
    if len(body) > MOST_PLAN_BYTES:
        plan["tables"] = [[] for _ in rows]
        body = _json({"schema": SCHEMA, "run_uid": run_uid, "plan": plan})
    if len(body) > MOST_PLAN_BYTES:
        raise _refused(f"{num_ranks} ranks take {len(body):,} bytes", f"{MOST_PLAN_BYTES:,} is the most")
    return body


def _row(at: str, told: Mapping[str, Any], room: int) -> dict[str, Any]:
    """One rank by column."""
    if not isinstance(told, Mapping):
        raise _refused(f"{at} is a {type(told).__name__}", f"it must be a dictionary with {', '.join(FIELDS)}")
    if not told.keys() <= _FIELDS:
        raise _refused(f"{at} has an unknown key", f"there are {', '.join(FIELDS)}")
    row: dict[str, Any] = {name: _count(f"{at}[{name!r}]", told.get(name)) for name in COUNTS}
    seconds, where = told.get("seconds"), f"{at}['seconds']"
    row["seconds"] = None if seconds is None else float(f"{_number(where, seconds):.6g}")
    tables = told.get("tables")
    if tables is None:
        return {**row, "tables": [], "num_tables": None}
    if isinstance(tables, str) or not isinstance(tables, Sequence):
        raise _refused(f"{at}['tables'] is a {type(tables).__name__}", "it must be a list of names")
    return {**row, "tables": _names(tables, room), "num_tables": len(tables)}


def _names(tables: Iterable[Any], room: int) -> list[str]:
    """The first ones, in so many bytes; one at least."""
    kept: list[str] = []
    for table in tables:
        if not isinstance(table, str | int):
            raise _refused(f"a table is a {type(table).__name__}", "it must be a name")
        name = str(table)[:_NAME_LENGTH]
        if not name.isprintable():  # nor are halves of a surrogate pair, which JSON cannot say
            name = "".join(letter if letter.isprintable() else "?" for letter in name)
        room -= len(_json(name)) + 1
        if room < 0 and kept:
            break
        kept.append(name)
    return kept


def _count(what: str, value: object) -> int | None:
    return None if value is None else round(_number(what, value))


def _number(what: str, value: object, least: float = 0.0) -> float:
    try:
        number = math.nan if isinstance(value, str | bytes) else float(cast(SupportsFloat, value))
    except Exception:  # whatever an object of the trainer's does
        number = math.nan
    if not (math.isfinite(number) and least <= number <= MOST_AMOUNT):
        raise _refused(f"{what} is no amount", f"it must be a number{'' if least else ', 0 or more'}")
    return number


def _refused(what: str, why: str) -> UsageError:
    return UsageError(f"zmon.plan(): {what}", why, "This plan is left out")


def _json(value: Any) -> bytes:
    return _ENCODER.encode(value).encode()
