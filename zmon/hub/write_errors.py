"""Say what a part of the hub cannot write, in its health and in its log, and try again.

The log says it once in a while only. A file that could not be written is tried again every few seconds, until it is as
in memory.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path

LOG_SECONDS = 60.0  # shortest time between two lines of one part
RETRY_SECONDS = 5.0  # time between two attempts to write what did not fit on the disk


class WriteErrors:
    """The write errors of one part."""

    def __init__(self, log: logging.Logger, consequence: str, clock: Callable[[], float] = time.monotonic) -> None:
        """`consequence`: what happens to that which cannot be written."""
        self._log, self._consequence, self._clock = log, consequence, clock
        self._logged_at = -LOG_SECONDS
        self.error: str | None = None  # of the last write; None if it succeeded

    @contextlib.contextmanager
    def watched(self, path: Path) -> Iterator[None]:
        """Note an OSError of the block, or its success. The error ends the block, and nothing else."""
        try:
            yield
        except OSError as error:
            self.add(path, error)
        else:
            self.error = None

    def add(self, path: Path, error: OSError) -> None:
        """Note an error."""
        self.error = f"cannot write {path}: {error.strerror or error}"
        now = self._clock()
        if now - self._logged_at >= LOG_SECONDS:
            self._logged_at = now
            self._log.error("%s; %s", self.error, self._consequence)


class RetriedFiles:
    """The files of one part, by name."""

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
