"""The ledger of acts: `acts.jsonl` in the agent's data directory, one JSON line for each decision and each signal.

A line is on the disk before what it announces is done, and another one says what came of it. The file is read at the
start, so nothing is done twice by the next agent either. A line that a kill tore is no decision: what it announced had
not begun. Only one agent may have the ledger. The file is for the user of the agent alone, and grows to some MiB; the
one before is `acts.jsonl.1`.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from zmon.schema.act import KILL_CULPRIT
from zmon.steplog.files import append_line, lock_directory, replace_file

log = logging.getLogger("zmon.acts")

FILE, LOCK = "acts.jsonl", "acts.lock"
# Events. A refusal did nothing. An act is announced, and then done or withdrawn; ending a launcher goes on after that:
# each further signal is announced and its result is written, until all is finished, or the agent ended meanwhile.
REFUSED, ANNOUNCED, DONE, WITHDRAWN = "refused", "announced", "done", "withdrawn"
SIGNAL, RESULT, FINISHED, INTERRUPTED = "signal", "result", "finished", "interrupted"
ROTATE_BYTES = 4 << 20
_MAX_ACTS = 1000  # that a new file still has; at four an hour, those of ten days


class ActEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of the ledger."""

    time: float  # unix seconds
    event: str
    act: str
    rank: int
    run_uid: str
    intent: str  # of the hub
    reason: str  # of the hub
    line: str  # what is about to be done, or what came of it
    key: str = ""  # what is ended once only: a rank or a launcher; "": it was not known
    job: str = ""  # with its owner


@dataclass
class Act:
    """An act that was announced and not withdrawn."""

    entries: list[ActEntry]
    monotonic: float | None = None  # seconds, when this agent announced it; None: an earlier agent did
    outcome: ActEntry | None = None

    @property
    def announced(self) -> ActEntry:
        return self.entries[0]

    @property
    def is_open(self) -> bool:
        """True if something was announced that nobody knows to be done."""
        last = self.entries[-1].event
        return last in (ANNOUNCED, SIGNAL, RESULT) or (last == DONE and self.announced.act != KILL_CULPRIT)


class ActLedger:
    """The ledger of one agent, whose acts are in memory as well."""

    def __init__(
        self, folder: Path, wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        """Lock and read the file, and mark what an earlier agent left open. Raises OSError and UsageError."""
        self._path, self._wall, self._monotonic = folder / FILE, wall, monotonic
        self._acts: dict[str, Act] = {}  # by key
        self._rotate_at = ROTATE_BYTES
        self._writing = threading.Lock()  # a launcher is ended beside further requests
        self._lock = lock_directory(
            folder, LOCK, "another agent has its ledger of acts", "give each agent a --data-dir of its own"
        )
        try:
            for entry in _read(self._path):
                self._remember(entry, None)
            for act in [act for act in self._acts.values() if act.is_open]:
                line = "the agent ended before it was finished: look by hand"
                self.write(msgspec.structs.replace(act.announced, time=wall(), event=INTERRUPTED, line=line))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let another agent have the ledger."""
        os.close(self._lock)

    def write(self, entry: ActEntry) -> None:
        """Append an entry; it is on the disk when this returns. Raises OSError, and then the entry does not count."""
        with self._writing:
            size = append_line(self._path, msgspec.json.encode(entry) + b"\n")
            self._remember(entry, self._monotonic())
            if size > self._rotate_at:
                self._rotate_at = 2 * size  # if the disk is full, this is not tried again at every line
                try:
                    self._rotate()
                except OSError as error:
                    log.warning("cannot begin a new %s: %s", self._path, error.strerror)

    def act_on(self, key: str) -> Act | None:
        """Return the act about this rank or launcher, or None."""
        return self._acts.get(key)

    def act_for(self, run_uid: str, is_kill: bool) -> Act | None:
        """Return the act that was asked for about this start of a rank, or None."""
        return next(
            (
                act
                for act in reversed(self._acts.values())
                if act.announced.run_uid == run_uid and (act.announced.act == KILL_CULPRIT) == is_kill
            ),
            None,
        )

    def within(self, seconds: float) -> list[Act]:
        """Return the acts of the last so many seconds. A clock that was set does not hide those of this agent."""
        since, since_monotonic = self._wall() - seconds, self._monotonic() - seconds
        return [
            act
            for act in self._acts.values()
            if act.announced.time > since or (act.monotonic is not None and act.monotonic > since_monotonic)
        ]

    def _remember(self, entry: ActEntry, monotonic: float | None) -> None:
        if entry.event == ANNOUNCED:
            self._acts.pop(entry.key, None)  # the newest is the last
            self._acts[entry.key] = Act([entry], monotonic)
        elif entry.event == WITHDRAWN:
            self._acts.pop(entry.key, None)
        elif entry.event != REFUSED and (act := self._acts.get(entry.key)) is not None:
            act.entries.append(entry)
            if entry.event == DONE:
                act.outcome = entry

    def _rotate(self) -> None:
        """Begin a new file with the last acts; the old one is kept beside it. A kill in between loses neither."""
        old = self._path.with_name(f"{FILE}.1")
        old.unlink(missing_ok=True)
        old.hardlink_to(self._path)
        last = [*self._acts.items()][-_MAX_ACTS:]
        lines = (msgspec.json.encode(entry) + b"\n" for _, act in last for entry in act.entries)
        self._rotate_at = max(ROTATE_BYTES, 2 * replace_file(self._path, lines))
        self._acts = dict(last)


def _read(path: Path) -> Iterator[ActEntry]:
    """Yield the entries of the file, without lines that a kill tore. Raises OSError."""
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return
    for line in filter(None, lines):
        try:
            yield msgspec.json.decode(line, type=ActEntry)
        except (msgspec.DecodeError, UnicodeDecodeError):
            log.warning("%s has a line that cannot be read, which a kill or a full disk has cut off", path)
