"""The pauses that healed, on disk as `pauses/<name>.json`: one file for all jobs of one name.

A place is forgotten a day after its last pause, because the code, the data or the storage has changed since. Each
change replaces the file. A file that cannot be read is ignored: the next pause of these jobs is a warning again.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from pathlib import Path

import msgspec

from zmon.hub.write_errors import RetriedFiles, WriteErrors
from zmon.schema.pause import HealedPause, Place
from zmon.steplog.files import SteadyClock, child_path, replace_file

log = logging.getLogger("zmon.hub")

FOLDER = "pauses"  # name of the folder in the data directory
MAX_AGE_SECONDS = 86400.0
MAX_PLACES = 64  # places of one name; a job has a few
PRUNE_SECONDS = 3600.0  # interval of the deletion of old files
_SUFFIX = ".json"


class _PauseFile(msgspec.Struct):
    """The content of a file."""

    schema: int
    name: str
    pauses: list[HealedPause]


class PauseStore:
    """The pauses that healed, by name of the jobs."""

    def __init__(self, folder: Path, clock: SteadyClock | None = None) -> None:
        self._folder = folder
        self._pauses: dict[str, tuple[HealedPause, ...]] = {}
        self._pruned_at: float | None = None
        self._clock = clock or SteadyClock()
        errors = WriteErrors(log, "the pauses that healed are kept in memory only")
        self._files = RetriedFiles(errors, self._path, self._write)

    @property
    def error(self) -> str | None:
        """The reason why the pauses cannot be written, or None."""
        return self._files.error

    def pauses(self, name: str, now: float) -> tuple[HealedPause, ...]:
        """Return the pauses of the jobs of that name in the last day, the longest first. `now` is in unix seconds."""
        self._files.retry(now)
        self._prune(now)
        if name not in self._pauses:
            self._pauses[name] = self._read(name)
        steady = self._clock.is_steady()
        recent = (pause for pause in self._pauses[name] if not steady or _is_recent(pause, now))
        return tuple(sorted(recent, key=lambda pause: -pause.longest_seconds))

    def record(self, name: str, places: Sequence[Place], seconds: float, now: float) -> None:
        """Record a pause of that length at each of these places."""
        known = {pause.place: pause for pause in self.pauses(name, now)}
        for place in places:
            earlier = known.get(place)
            longest = max(seconds, earlier.longest_seconds if earlier else 0.0)
            known[place] = HealedPause(place, round(longest, 3), (earlier.number if earlier else 0) + 1, now)
        newest = sorted(known.values(), key=lambda pause: -pause.last_time)[:MAX_PLACES]
        self._pauses[name] = tuple(newest)
        self._files.write(name)

    def _prune(self, now: float) -> None:
        """Delete the files without a pause in the last day, once an hour; forget what is in memory."""
        if self._pruned_at is not None and 0 <= now - self._pruned_at < PRUNE_SECONDS:
            return
        if not self._clock.is_steady():
            return
        self._pruned_at = now
        self._pauses = {name: pauses for name, pauses in self._pauses.items() if name in self._files.unwritten}
        for path in self._folder.glob(f"*{_SUFFIX}"):
            if not any(_is_recent(pause, now) for pause in self._read(path.stem)):
                with contextlib.suppress(OSError):
                    path.unlink()

    def _path(self, name: str) -> Path:
        return child_path(self._folder, name, _SUFFIX)

    def _write(self, name: str) -> None:
        content = _PauseFile(1, name, [*self._pauses[name]])
        replace_file(self._path(name), [msgspec.json.encode(content)], sync=False)

    def _read(self, name: str) -> tuple[HealedPause, ...]:
        path = self._path(name)
        try:
            content = msgspec.json.decode(path.read_bytes(), type=_PauseFile)
        except FileNotFoundError:
            return ()
        except (OSError, msgspec.DecodeError) as error:
            log.error("cannot use %s: %s; the pauses of these jobs are learned anew", path, error)
            return ()
        return tuple(content.pauses[:MAX_PLACES]) if content.schema == 1 else ()


def _is_recent(pause: HealedPause, now: float) -> bool:
    return abs(now - pause.last_time) < MAX_AGE_SECONDS  # the clock may have been set back
