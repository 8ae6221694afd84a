"""A file of JSON lines on the hub's disk. A change appends a line; the file is rewritten when it has grown.

A file that cannot be read is never replaced. What cannot be written is tried again every few seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from zmon.hub.write_errors import RETRY_SECONDS, WriteErrors
from zmon.steplog.files import append_line, replace_file

REWRITE_BYTES = 32 << 20  # the file is rewritten at this size, or at twice its last rewritten size if that is more


class JsonLines:
    """The file. `open` reads and rewrites it; later it is rewritten when it has grown."""

    def __init__(
        self,
        path: Path,
        errors: WriteErrors,
        read: Callable[[Sequence[bytes]], None],
        lines: Callable[[], Iterable[bytes]],
    ) -> None:
        """`read` gets the lines of the file, without newlines, once: at the start, or as soon as they can be read.

        `lines` returns the lines that the file should have, with newlines.
        """
        self._path, self._errors, self._take_lines, self._lines = path, errors, read, lines
        self._was_read = False  # the file may be replaced only after it was read
        self._rewrite_at = REWRITE_BYTES
        self._unwritten = True  # the file is not what a rewrite would make it
        self._retried_at = 0.0

    def open(self) -> None:
        """Read the file, and rewrite it without outdated lines."""
        with self._errors.watched(self._path):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)  # jobs' messages are private to the user
            self._rewrite()

    def append(self, line: bytes) -> None:
        """Append a line, which ends in a newline."""
        with self._errors.watched(self._path):
            if self._unwritten:
                self._rewrite()
                return
            self._unwritten = True
            size = append_line(self._path, line)
            self._unwritten = False
            if size > self._rewrite_at:
                self._rewrite_at = 2 * size  # if the disk is full, the rewrite is not tried again at every line
                self._rewrite()

    def retry(self, now: float) -> None:
        """Write what could not be written, or read what could not be read, every few seconds; call it in every pass."""
        if self._unwritten and abs(now - self._retried_at) >= RETRY_SECONDS:
            self._retried_at = now
            with self._errors.watched(self._path):
                self._rewrite()

    def _read(self) -> None:
        """Read the file. Raises OSError."""
        try:
            *lines, last = self._path.read_bytes().split(b"\n")
        except FileNotFoundError:
            lines, last = [], b""
        except OSError as error:
            raise OSError(error.errno, f"what it has cannot be read ({error.strerror}) and is not replaced") from error
        self._was_read = True
        if not _was_cut_off(last):
            lines.append(last)
        self._take_lines([line for line in lines if line])

    def _rewrite(self) -> None:
        """Rewrite the file without outdated lines. Raises OSError, and then leaves the old file."""
        if not self._was_read:
            self._read()
        size = replace_file(self._path, self._lines())
        self._rewrite_at = max(REWRITE_BYTES, 2 * size)
        self._unwritten = False


def _was_cut_off(line: bytes) -> bool:
    """Return True if the last line of the file is empty, or was cut off by a crash."""
    try:
        msgspec.json.decode(line)
    except msgspec.DecodeError:
        return True
    return False
