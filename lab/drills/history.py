"""Store the rows of drills in one file per session, one line per row, so that a session can be resumed."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import msgspec

from lab.drills.draw import Pinned
from lab.drills.score import DrillRow
from zmon.errors import UsageError
from zmon.schema.names import SCHEMA


class Head(msgspec.Struct, kw_only=True):
    """The first line of the file: the parameters of the session."""

    schema: int = SCHEMA
    seed: int
    repeats: int
    drills: tuple[str, ...]
    pinned: Pinned = Pinned()
    act_file: str | None = None  # the policy by which zmon acts

    @property
    def policy(self) -> Path | None:
        """The policy by which zmon acts; None: it never acts."""
        return Path(self.act_file) if self.act_file else None


class Session:
    """One session: its file and its rows."""

    def __init__(self, path: Path, head: Head) -> None:
        self.path, self.head = path, head
        self.rows: list[DrillRow] = []

    def add(self, row: DrillRow) -> None:
        """Append a row to the file."""
        self.rows.append(row)
        with self.path.open("ab") as file:
            file.write(msgspec.json.encode(row) + b"\n")

    @property
    def done(self) -> set[tuple[str, int]]:
        """The (drill, repeat) pairs that need not be played again."""
        return {(row.drill, row.repeat) for row in self.rows}


def begin(data_dir: Path, head: Head, kind: str = "drills") -> Session:
    """Begin a session of kind `drills`, `soak`, `watch` or `random`.

    Raises UsageError if its file cannot be written.
    """
    path = data_dir / "drills" / f"{kind}-{datetime.now(UTC):%Y%m%dT%H%M%S}.jsonl"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.encode(head) + b"\n")
    except OSError as error:
        raise UsageError(
            f"cannot write {path}", f"{error.strerror}", "choose another directory with --data-dir"
        ) from error
    return Session(path, head)


def newest(data_dir: Path, kind: str = "drills") -> Session:
    """Open the newest session of a kind, to resume it. Raises UsageError if there is none, or if its file is damaged.

    Rows of broken drills and a half-written last line are dropped.
    """
    files = sorted((data_dir / "drills").glob(f"{kind}-*.jsonl"))
    if not files:
        raise UsageError("there is no session to resume", f"no drill was played in {data_dir}", "leave --resume out")
    path = files[-1]
    partial = path.with_suffix(".partial")
    try:
        first, *lines = path.read_bytes().rpartition(b"\n")[0].split(b"\n")
        head = msgspec.json.decode(first, type=Head)
        rows = [msgspec.json.decode(line, type=DrillRow) for line in lines]
        session = Session(partial, head)
        partial.write_bytes(first + b"\n")
        for row in rows:
            if row.broken is None:
                session.add(row)
        session.path = partial.rename(path)
    except (OSError, msgspec.DecodeError) as error:
        raise UsageError(f"cannot resume {path}", str(error), "leave --resume out") from error
    return session
