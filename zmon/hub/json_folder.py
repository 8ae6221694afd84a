"""A folder of JSON files on the hub's disk, one for each key: a job, or the name that jobs share.

Each write replaces the file at once, so a hub that is killed loses nothing. What cannot be written is kept in memory
and tried again. A person may delete a file, or copy it to another cluster: a file that has changed is read again.

A file that cannot be read is never replaced. One that this version cannot use, because another version wrote it or it
is damaged, is kept as `<key>.json.unusable`.
"""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from zmon.hub.write_errors import RETRY_SECONDS, WriteErrors
from zmon.steplog.files import SteadyClock, child_path, replace_file

T = TypeVar("T")

log = logging.getLogger("zmon.hub")

PRUNE_SECONDS = 3600.0  # interval of the deletion of old files
_SUFFIX = ".json"
_UNUSABLE_SUFFIX = ".unusable"  # added to the name of a file that was not used
SAVE_SECONDS = 5.0  # between two writes of data that changes all the time: a hub that is killed loses no more


def decoder(kind: type[T], schema: int = 1) -> Callable[[bytes], T]:
    """Return a function that decodes a file with this number as `schema`. It raises ValueError."""

    def decode(data: bytes) -> T:
        content = msgspec.json.decode(data, type=kind)
        if (file_schema := getattr(content, "schema", schema)) != schema:
            raise ValueError(f"schema {file_schema} belongs to another version of zmon")
        return content

    return decode


class JsonFolder(Generic[T]):
    """The files of one folder. `clock.is_steady()` says whether something may be forgotten for its age."""

    def __init__(
        self,
        folder: Path,
        decode: Callable[[bytes], T],
        if_unusable: str,
        if_unwritten: str = "",
        sync: bool = False,
        clock: SteadyClock | None = None,
    ) -> None:
        """`decode` returns the content of a file, or raises ValueError.

        `if_unusable` and `if_unwritten`: what follows if a file cannot be used, or if `put` fails; for the log.
        `sync`: what is written also survives a power failure; each write takes some milliseconds longer.
        """
        self.folder, self.clock = folder, clock or SteadyClock()
        self.unusable: dict[str, str] = {}  # key → why its file could not be used when it was last read
        self.unwritten: dict[str, T | None] = {}  # key → content that its file should have; None: no file
        self._decode, self._if_unusable, self._sync = decode, if_unusable, sync
        self.errors = WriteErrors(log, if_unwritten)
        self._cache: dict[str, tuple[tuple[int, int], T]] = {}  # key → (mtime, inode) of its file, and the content
        self._usable: set[str] = set()  # keys whose file may be replaced: it was usable, or there was none
        self._retried_at = self._pruned_at = -math.inf

    @property
    def error(self) -> str | None:
        """The last write error; None if every file has its content."""
        return self.errors.error

    def path(self, key: str) -> Path:
        """Return the path of a file. Raises UsageError for a key that cannot be a name."""
        return child_path(self.folder, key, _SUFFIX)

    def stored_keys(self) -> list[str]:
        """Return the keys of all files, in order."""
        with contextlib.suppress(OSError):
            paths = self.folder.glob(f"*{_SUFFIX}")
            return sorted(path.stem for path in paths if path.name[0] != "." and path.name.isprintable())
        return []

    def get(self, key: str) -> T | None:
        """Return the content of a file, or what could not be written to it; None if there is no file, or no usable one.

        The log says once why a file cannot be used.
        """
        if key in self.unwritten:
            return self.unwritten[key]
        path = self.path(key)
        try:
            stat = path.stat()
            version = stat.st_mtime_ns, stat.st_ino
            cached_version, content = self._cache.get(key, (None, None))
            if content is None or cached_version != version:
                content = self._decode(path.read_bytes())
                self._cache[key] = version, content
            self.unusable.pop(key, None)
            self._usable.add(key)
            return content
        except (FileNotFoundError, NotADirectoryError):
            self.unusable.pop(key, None)
        except (OSError, ValueError) as error:
            if self.unusable.get(key) != str(error):
                log.error("cannot use %s: %s; %s", path, error, self._if_unusable)
            self.unusable[key] = str(error)
            self._usable.discard(key)
        self._cache.pop(key, None)
        return None

    def replace(self, key: str, content: T | None) -> None:
        """Make a file have this content; None deletes it. Raises OSError, and then the old file is unchanged."""
        self._cache.pop(key, None)
        if content is None:
            self.path(key).unlink(missing_ok=True)
            self._usable.discard(key)
            return
        if key not in self._usable:
            self._set_aside(key)
        replace_file(self.path(key), [msgspec.json.encode(content)], self._sync)
        self._usable.add(key)

    def _set_aside(self, key: str) -> None:
        """Rename a file that is unusable, or was so at the last `get`. Raises OSError if it cannot be read."""
        path = self.path(key)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return
        with contextlib.suppress(ValueError):
            self._decode(data)
            if key not in self.unusable:
                return
        log.warning("%s was not used; it is kept as %s", path, path.name + _UNUSABLE_SUFFIX)
        path.replace(path.with_name(path.name + _UNUSABLE_SUFFIX))

    def put(self, key: str, content: T | None) -> None:
        """Make a file have this content, or keep it in memory and note the error; `retry` then tries again."""
        self.unwritten[key] = content
        try:
            self.replace(key, content)
        except OSError as error:
            self.errors.add(self.path(key), error)
            return
        del self.unwritten[key]
        if not self.unwritten:
            self.errors.error = None

    def retry(self, now: float) -> None:
        """Write what could not be written before, every few seconds; call it often. `now` is in unix seconds."""
        if self.unwritten and abs(now - self._retried_at) >= RETRY_SECONDS:
            self._retried_at = now
            for key, content in [*self.unwritten.items()]:
                self.put(key, content)

    def prune(self, now: float, is_old: Callable[[str], bool]) -> None:
        """Delete the files whose keys are old, once an hour while the clock is steady. `is_old` may raise OSError.

        `now`: seconds of any clock, the same one at each call.
        """
        steady = self.clock.is_steady()
        if steady and abs(now - self._pruned_at) >= PRUNE_SECONDS:
            self._pruned_at = now
            for key in self.stored_keys():
                with contextlib.suppress(OSError):
                    if is_old(key):
                        self.replace(key, None)
