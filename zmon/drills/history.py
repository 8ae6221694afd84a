"""Rows of drills on disk: one file for each session, a line for each row, so that a session can be taken up again."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import msgspec

from zmon.drills.casting import Pinned
from zmon.drills.score import DrillRow
from zmon.errors import UsageError
from zmon.schema.names import SCHEMA


class Head(msgspec.Struct, kw_only=True):
    """The first line: what the session was asked for."""

    schema: int = SCHEMA
    seed: int
    repeats: int
    drills: tuple[str, ...]
    pinned: Pinned = Pinned()


class Session:
    """A session's file."""

    def __init__(self, path: Path, head: Head) -> None:
        self.path, self.head = path, head
        self.rows: list[DrillRow] = []

    def add(self, row: DrillRow) -> None:
        """Keep a row, at once."""
        self.rows.append(row)
        with self.path.open("ab") as file:
            file.write(msgspec.json.encode(row) + b"\n")

    @property
    def done(self) -> set[tuple[str, int]]:
        """What need not be played again."""
        return {(row.drill, row.repeat) for row in self.rows}


def begin(data_dir: Path, head: Head, kind: str = "drills") -> Session:
    """A new session, of `drills` or a `soak`. Raises UsageError where it cannot be kept."""
    path = data_dir / "drills" / f"{kind}-{datetime.now(UTC):%Y%m%dT%H%M%S}.jsonl"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.encode(head) + b"\n")
    except OSError as error:
        raise UsageError(f"cannot write {path}", f"{error.strerror}", "choose another with --data-dir") from error
    return Session(path, head)


def newest(data_dir: Path) -> Session:
    """The last session, to go on with. What is broken or half written is forgotten. Raises UsageError."""
    files = sorted((data_dir / "drills").glob("drills-*.jsonl"))
    if not files:
        raise UsageError("there is no session to resume", f"no drill was played in {data_dir}", "leave --resume out")
    path, partial = files[-1], files[-1].with_suffix(".partial")
    try:
        head, *lines = path.read_bytes().rpartition(b"\n")[0].split(b"\n")
        found = msgspec.json.decode(head, type=Head)
        rows = [msgspec.json.decode(line, type=DrillRow) for line in lines]
        session = Session(partial, found)
        partial.write_bytes(head + b"\n")
        for row in rows:
            if row.broken is None:
                session.add(row)
        session.path = partial.rename(path)
    except (OSError, msgspec.DecodeError) as error:
        raise UsageError(f"cannot resume {path}", str(error), "leave --resume out") from error
    return session
