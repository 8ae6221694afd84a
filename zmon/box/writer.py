"""The rank's end of the black box: made once, then only memory is written.

Making a box allocates the whole file first (`posix_fallocate`), so a full /dev/shm is an error here and not a
SIGBUS in the middle of training, and takes a POSIX lock that lasts as long as the process. (A POSIX lock is
lost when *any* descriptor of the file is closed by its owner, so the rank never opens its box a second time
and closes it.)
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from zlib import crc32

from zmon.box import layout
from zmon.box.lock import holder
from zmon.errors import BoxUnavailable

DEFAULT_ROOT = Path("/dev/shm/zmon")  # memory, not disk: it is written at every step
_LOCK_SECONDS = 2.0  # it is held for microseconds

Write = Callable[..., None]


def box_path(root: Path, job_id: str, attempt: int, rank: int) -> Path:
    """Where the box of a rank lies."""
    return root / job_id / str(attempt) / f"rank-{rank}.box"


class BoxWriter:
    """A rank's black box, open for writing. Not thread-safe: one thread writes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # A name of its own until it is published: in two containers the same pid may be at work on the same box.
        self._unpublished = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
        try:
            self._fd = _create(path, self._unpublished)
        except OSError as error:
            raise _unavailable(path, error) from error
        self._seed = int.from_bytes(os.urandom(4), "little")
        # Populated at once, so that no page faults in the middle of training.
        self._map = mmap.mmap(self._fd, layout.FILE_SIZE, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE)
        self._view = memoryview(self._map)
        self._identity = self._cell(layout.IDENTITY)
        self.place = self._cell(layout.PLACE)
        self.report = self._cell(layout.REPORT)
        self.words = self._cell(layout.WORDS)
        self.groups = self._cell(layout.GROUPS)
        self.live = self._view[layout.LIVE : layout.RING].cast("q")  # written in place: a call each would cost too much
        self.boundary = self._ring()
        for number in range(layout.ENTERED, layout.NUM_LIVE, 2):
            self.number(number, 0)
        layout.PREFIX.pack_into(
            self._view, 0, layout.MAGIC, layout.VERSION, layout.RING_CAPACITY, layout.FILE_SIZE, self._seed
        )

    def identity(self, who: layout.Identity) -> None:
        """Write who this rank is."""
        self._identity(*layout.packed_identity(who))

    def publish(self) -> None:
        """Put the box under its name; call once identity and state are in it. Raises BoxUnavailable.

        Two starts with the same job id at the same moment: a lock on the directory makes one of them the second.
        """
        try:
            folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                _lock(folder, self.path)
                _refuse_if_held(self.path)
                self._unpublished.rename(self.path)
            finally:
                os.close(folder)
        except OSError as error:
            raise _unavailable(self.path, error) from error

    def discard(self) -> None:
        """Take back a box that was not published."""
        self._unpublished.unlink(missing_ok=True)
        os.close(self._fd)

    def tail(self) -> int:
        """A descriptor whose writes land behind the box; for a signal handler, never to be closed."""
        return os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)

    def _cell(self, cell: layout.Cell) -> Write:
        pack, crc_pack, seed = cell.struct.pack_into, layout.CRC.pack_into, self._seed
        size = cell.struct.size
        slots = tuple(self._view[at : at + size] for at in (cell.offset, cell.offset + cell.slot_size))
        ends = tuple(self._view[at : at + 4] for at in (cell.offset + size, cell.offset + cell.slot_size + size))
        counter = 0

        def write(*values: object) -> None:
            nonlocal counter
            turn = (counter + 1) & 1
            slot = slots[turn]
            pack(slot, 0, counter + 1, *values)  # values that do not fit raise: the other slot stays as it is
            crc_pack(ends[turn], 0, crc32(slot, seed))
            counter += 1

        return write

    def number(self, at: int, value: int) -> None:
        """Write one of the live numbers."""
        self.live[at], self.live[at + 1] = value, ~value

    def _ring(self) -> Callable[[Sequence[float], Sequence[int], Sequence[int]], int]:
        pack, crc_pack, view = layout.BOUNDARY.pack_into, layout.CRC.pack_into, self._view
        size, seed = layout.BOUNDARY.size, self._seed
        ring, capacity, apart = layout.RING, layout.RING_CAPACITY, layout.BOUNDARY_SIZE
        number = 0

        def append(head: Sequence[float], times: Sequence[int], counts: Sequence[int]) -> int:
            nonlocal number
            at = ring + (number + 1) % capacity * apart
            pack(view, at, number + 1, *head, *times, *counts)
            crc_pack(view, at + size, crc32(view[at : at + size], seed))
            number += 1
            return number

        return append


def _unavailable(path: Path, error: OSError) -> BoxUnavailable:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return BoxUnavailable(
        f"cannot make the black box {path}",
        f"{error.strerror or error}",
        f"{'Free some room there or p' if full else 'P'}oint ZMON_BOX_DIR at "
        f"{'another directory' if full else 'a directory that this user may write'}; the job runs on unwatched",
    )


def _refuse_if_held(path: Path) -> None:
    try:
        old = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    pid = holder(old)
    os.close(old)
    if pid is not None:
        raise BoxUnavailable(
            f"the black box {path} is held by process {pid}",
            "another job on this host has the same job id and is still running",
            "give this one its own with --job-id or ZMON_JOB_ID",
        )


def _lock(folder: int, path: Path) -> None:
    deadline = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            return fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise BoxUnavailable(
                    f"cannot put the black box {path} in its place",
                    "another process has locked its directory",
                    "end that one; the job runs on unwatched",
                ) from None
            time.sleep(0.01)


def _create(path: Path, new: Path) -> int:
    for directory in (path.parents[2], path.parents[1], path.parent):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    _refuse_if_held(path)
    fd = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(fd, 0, layout.FILE_SIZE)
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        new.unlink()
        os.close(fd)
        raise
    return fd
