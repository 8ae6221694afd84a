"""The write errors of one part of the hub: the last one for its health, and a line in the log once a minute at most."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path

LOG_SECONDS = 60.0  # shortest time between two lines of one part: a full disk must not fill the log
RETRY_SECONDS = 5.0  # time between two attempts to write what did not fit on the disk


class WriteErrors:
    """The write errors of one part, for its health and for the log."""

    def __init__(self, log: logging.Logger, consequence: str, clock: Callable[[], float] = time.monotonic) -> None:
        """`consequence`: what follows for the data that cannot be written."""
        self._log, self._consequence, self._clock = log, consequence, clock
        self._logged_at = -LOG_SECONDS
        self.error: str | None = None  # of the last write; None if it succeeded

    @contextlib.contextmanager
    def watched(self, path: Path) -> Iterator[None]:
        """Record an OSError of the block, or its success. The error ends the block only."""
        try:
            yield
        except OSError as error:
            self.add(path, error)
        else:
            self.error = None

    def add(self, path: Path, error: OSError) -> None:
        """Record an error, and log it unless one was logged a moment ago."""
        self.error = f"cannot write {path}: {error.strerror or error}"
        now = self._clock()
        if now - self._logged_at >= LOG_SECONDS:
            self._logged_at = now
            self._log.error("%s; %s", self.error, self._consequence)
