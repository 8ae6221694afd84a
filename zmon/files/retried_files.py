"""Keeps files as they are in memory: a file that could not be written is tried again every few seconds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from zmon.files.write_errors import WriteErrors

RETRY_SECONDS = 5.0  # time between two attempts to write what did not fit on the disk


class RetriedFiles:
    """The files of one part of a daemon, by name."""

    def __init__(self, errors: WriteErrors, path: Callable[[str], Path], write: Callable[[str], None]) -> None:
        """`path` returns the path of a file; `write` makes the file as in memory. Both take a name."""
        self._errors, self._path, self._write = errors, path, write
        self._retried_at = 0.0
        self.unwritten: set[str] = set()  # names whose file is not as in memory

    @property
    def error(self) -> str | None:
        """The last error, for as long as a file is not as in memory; else None."""
        return self._errors.error

    def write(self, name: str) -> None:
        """Write a file, or note the error; `retry` then tries again."""
        self.unwritten.add(name)
        try:
            self._write(name)
        except OSError as error:
            self._errors.add(self._path(name), error)
            return
        self.unwritten.discard(name)
        if not self.unwritten:
            self._errors.error = None

    def retry(self, now: float) -> None:
        """Write what could not be written before, every few seconds; call it often. `now` is in unix seconds."""
        if self.unwritten and abs(now - self._retried_at) >= RETRY_SECONDS:
            self._retried_at = now
            for name in [*self.unwritten]:
                self.write(name)
