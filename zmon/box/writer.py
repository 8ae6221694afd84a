"""The rank's end of the black box: made once, then only memory is written.

Making a box allocates the whole file first (`posix_fallocate`), so a full /dev/shm is an error here and not a
SIGBUS in the middle of training, and takes a POSIX lock that lasts as long as the process. (A POSIX lock is
lost when *any* descriptor of the file is closed by its owner, so the rank never opens its box a second time
and closes it.)
"""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Callable
from pathlib import Path
from zlib import crc32

from zmon.box import layout
from zmon.box.lock import holder
from zmon.errors import BoxUnavailable

DEFAULT_ROOT = Path("/dev/shm/zmon")  # memory, not disk: it is written at every step

Write = Callable[..., None]


def box_path(root: Path, job_id: str, attempt: int, rank: int) -> Path:
    """Where the box of a rank lies."""
    return root / job_id / str(attempt) / f"rank-{rank}.box"


class BoxWriter:
    """A rank's black box, open for writing. Not thread-safe: one thread writes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._fd = _create(path)
        except OSError as error:
            raise BoxUnavailable(
                f"cannot make the black box {path}",
                f"{error.strerror or error}",
                "free some room there or point ZMON_BOX_DIR at another directory; the job runs on unwatched",
            ) from error
        self._map = mmap.mmap(self._fd, layout.FILE_SIZE)
        self._view = memoryview(self._map)
        self.identity = self._cell(layout.IDENTITY)
        self.now = self._cell(layout.NOW)
        self.totals = self._cell(layout.TOTALS)
        self.report = self._cell(layout.REPORT)
        self.words = self._cell(layout.WORDS)
        self.groups = self._cell(layout.GROUPS)
        self.record = self._ring()
        self.sequence = self._sequences()
        layout.PREFIX.pack_into(self._view, 0, layout.MAGIC, layout.VERSION, layout.RING_CAPACITY, layout.FILE_SIZE)

    def publish(self) -> None:
        """Put the box under its name; call once identity and state are in it."""
        _unpublished(self.path).rename(self.path)

    def discard(self) -> None:
        """Take back a box that was not published."""
        _unpublished(self.path).unlink(missing_ok=True)
        os.close(self._fd)

    def tail(self) -> int:
        """A descriptor whose writes land behind the box; for a signal handler, never to be closed."""
        return os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)

    def _cell(self, cell: layout.Cell) -> Write:
        pack, crc_pack = cell.struct.pack_into, layout.CRC.pack_into
        size = cell.struct.size
        slots = tuple(self._view[at : at + size] for at in (cell.offset, cell.offset + cell.slot_size))
        ends = tuple(self._view[at : at + 4] for at in (cell.offset + size, cell.offset + cell.slot_size + size))
        counter = 0

        def write(*values: object) -> None:
            nonlocal counter
            turn = (counter + 1) & 1
            slot = slots[turn]
            pack(slot, 0, counter + 1, *values)  # values that do not fit raise: the other slot stays as it is
            crc_pack(ends[turn], 0, crc32(slot))
            counter += 1

        return write

    def _ring(self) -> Write:
        pack, crc_pack, view = layout.RECORD.pack_into, layout.CRC.pack_into, self._view
        size = layout.RECORD.size
        number = 0

        def append(*values: object) -> None:
            nonlocal number
            at = layout.RING + (number + 1) % layout.RING_CAPACITY * layout.RECORD_SIZE
            pack(view, at, number + 1, *values)
            crc_pack(view, at + size, crc32(view[at : at + size]))
            number += 1

        return append

    def _sequences(self) -> Callable[[int, int], None]:
        pack, view, complement = layout.SEQUENCE.pack_into, self._view, 0xFFFF_FFFF_FFFF_FFFF

        def write(group: int, sequence: int) -> None:
            pack(view, layout.SEQUENCES + group * 16, sequence, sequence ^ complement)

        return write


def _unpublished(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}")


def _create(path: Path) -> int:
    for directory in (path.parents[2], path.parents[1], path.parent):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        old = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        pass
    else:
        pid = holder(old)
        os.close(old)
        if pid is not None:
            raise BoxUnavailable(
                f"the black box {path} is held by process {pid}",
                "another job on this host has the same job id and is still running",
                "give this one its own with --job-id or ZMON_JOB_ID",
            )
    new = _unpublished(path)
    fd = os.open(new, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(fd, 0, layout.FILE_SIZE)
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        new.unlink()
        os.close(fd)
        raise
    return fd
