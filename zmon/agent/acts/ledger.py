"""The ledger of acts: `acts.jsonl` in the agent's data directory, one JSON line for each decision and each signal.

The line of a decision is on the disk before the act begins. A later line has the result of the act. The agent reads
the file at its start, so it does not repeat an act of an earlier agent. A line that a kill cut off does not count: its
act had not begun. Only one agent may use the ledger. Only the user of the agent may read the file. At 4 MiB a new file
begins, and the old file becomes `acts.jsonl.1`.
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

from zmon.schema.act import KILL_CULPRIT, REFUSED, ActRequest
from zmon.steplog.files import append_line, lock_directory, replace_file

log = logging.getLogger("zmon.acts")

FILE, LOCK = "acts.jsonl", "acts.lock"
# The events of an act. It is announced, and then done or withdrawn. The end of a launcher may take more signals: each
# is a SIGNAL with a RESULT, until the act is FINISHED, or INTERRUPTED because the agent ended. A request without an
# act has the event REFUSED.
ANNOUNCED, DONE, WITHDRAWN = "announced", "done", "withdrawn"
SIGNAL, RESULT, FINISHED, INTERRUPTED = "signal", "result", "finished", "interrupted"
ROTATE_BYTES = 4 << 20  # size at which a new file begins, so that the agent reads it quickly at its start
_MAX_REASON = 300  # characters of the hub's reason
_MAX_ACTS = 1000  # acts that a new file takes over; ten days of acts at four an hour


class ActEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of the ledger."""

    time: float  # unix seconds
    event: str
    act: str
    rank: int
    run_uid: str
    intent: str  # of the hub
    reason: str  # of the hub
    line: str  # the act that is about to begin, or its result
    key: str = ""  # the rank or launcher, which is ended only once; "": unknown
    job: str = ""  # id of the job, with its owner


@dataclass
class Act:
    """An act that was announced and not withdrawn."""

    entries: list[ActEntry]
    monotonic: float | None = None  # seconds at which this agent announced the act; None: an earlier agent announced it
    outcome: ActEntry | None = None

    @property
    def announced(self) -> ActEntry:
        return self.entries[0]

    @property
    def is_open(self) -> bool:
        """True if the act was announced, and no entry shows that it is complete."""
        last = self.entries[-1].event
        return last in (ANNOUNCED, SIGNAL, RESULT) or (last == DONE and self.announced.act != KILL_CULPRIT)


class ActLedger:
    """The ledger of one agent, in its file and in memory."""

    def __init__(
        self, folder: Path, wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        """Lock and read the file, and mark the open acts of an earlier agent. Raises OSError and UsageError."""
        self._path, self._wall, self._monotonic = folder / FILE, wall, monotonic
        self._acts: dict[str, Act] = {}  # by key
        self._rotate_at = ROTATE_BYTES
        self._writing = threading.Lock()  # a thread ends a launcher while others serve requests
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
        """Release the ledger for another agent."""
        os.close(self._lock)

    def write(self, entry: ActEntry) -> None:
        """Append an entry, and sync it to the disk. Raises OSError, and then the entry does not count."""
        with self._writing:
            size = append_line(self._path, msgspec.json.encode(entry) + b"\n")
            self._remember(entry, self._monotonic())
            if size > self._rotate_at:
                self._rotate_at = 2 * size  # if the disk is full, the rotation is not tried again at every line
                try:
                    self._rotate()
                except OSError as error:
                    log.warning("cannot begin a new %s: %s", self._path, error.strerror)

    def act_on(self, key: str) -> Act | None:
        """Return the act about this rank or launcher; None without an act."""
        return self._acts.get(key)

    def act_for(self, run_uid: str, is_kill: bool) -> Act | None:
        """Return the newest act that was requested for this start of a rank; None without an act."""
        acts = (act for act in reversed(self._acts.values()) if act.announced.run_uid == run_uid)
        return next((act for act in acts if (act.announced.act == KILL_CULPRIT) == is_kill), None)

    def within(self, seconds: float) -> list[Act]:
        """Return the acts of the last `seconds`. A change of the wall clock does not hide the acts of this agent."""
        since, since_monotonic = self._wall() - seconds, self._monotonic() - seconds
        return [
            act
            for act in self._acts.values()
            if act.announced.time > since or (act.monotonic is not None and act.monotonic > since_monotonic)
        ]

    def _remember(self, entry: ActEntry, monotonic: float | None) -> None:
        """Take an entry into memory. `monotonic`: when this agent wrote it; None: an earlier agent did."""
        if entry.event == ANNOUNCED:
            self._acts.pop(entry.key, None)  # so that the newest act is the last of the dict
            self._acts[entry.key] = Act([entry], monotonic)
        elif entry.event == WITHDRAWN:
            self._acts.pop(entry.key, None)
        elif entry.event != REFUSED and (act := self._acts.get(entry.key)) is not None:
            act.entries.append(entry)
            if entry.event == DONE:
                act.outcome = entry

    def _rotate(self) -> None:
        """Begin a new file with the newest acts, beside the old file. A kill meanwhile loses neither file."""
        old = self._path.with_name(f"{FILE}.1")
        old.unlink(missing_ok=True)
        old.hardlink_to(self._path)
        newest = [*self._acts.items()][-_MAX_ACTS:]
        lines = (msgspec.json.encode(entry) + b"\n" for _, act in newest for entry in act.entries)
        self._rotate_at = max(ROTATE_BYTES, 2 * replace_file(self._path, lines))
        self._acts = dict(newest)


@dataclass(frozen=True)
class ActRecord:
    """One request to the agent, and its entries in the ledger."""

    ledger: ActLedger
    request: ActRequest
    key: str = ""  # as in `ActEntry`
    job: str = ""  # as in `ActEntry`; "": only the id of the job is known

    def write(self, event: str, line: str) -> None:
        """Append an entry, and sync it to the disk. Raises OSError, and then the entry does not count."""
        self.ledger.write(self._entry(event, line))

    def note(self, event: str, line: str) -> ActEntry:
        """Append an entry about what is already done, or log it; the next agent then marks the act as interrupted."""
        entry = self._entry(event, line)
        try:
            self.ledger.write(entry)
        except OSError as error:
            log.error("cannot write to the ledger of acts: %s: %s", line, error.strerror)
        return entry

    def _entry(self, event: str, line: str) -> ActEntry:
        request = self.request
        return ActEntry(
            time=time.time(),
            event=event,
            act=request.act,
            rank=request.rank,
            run_uid=request.run_uid,
            intent=request.intent,
            reason=request.reason[:_MAX_REASON],
            line=line,
            key=self.key,
            job=self.job or request.job_id,
        )


def _read(path: Path) -> Iterator[ActEntry]:
    """Yield the entries of the file, without lines that a kill cut off. Raises OSError."""
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return
    for line in filter(None, lines):
        try:
            yield msgspec.json.decode(line, type=ActEntry)
        except (msgspec.DecodeError, UnicodeDecodeError):
            log.warning("%s has a line that cannot be read, which a kill or a full disk has cut off", path)
