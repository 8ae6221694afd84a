"""The rank's side of the black box: creates the file once and then writes mapped memory only.

The whole file is allocated at creation (`posix_fallocate`), so a full /dev/shm is an error here and not a SIGBUS in
the middle of training. The writer also takes a POSIX lock, which lasts as long as the process. The kernel drops a POSIX
lock when its owner closes *any* descriptor of the file, so the rank must never open its box a second time and close it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import mmap
import os
from collections.abc import Callable
from pathlib import Path
from zlib import crc32

from zmon.box import layout
from zmon.box.identity import Identity, field, packed_identity
from zmon.box.lock import holder, lock_folder, opened
from zmon.box.roots import VARIABLE, check_owner
from zmon.box.versions import CURRENT, Cell
from zmon.errors import BoxUnavailable

_MAX_TRIES = 3  # attempts to create a file in a folder that others delete when it is empty
_LOCK_SECONDS = 2.0  # how long to wait for the directory's lock, which others hold to publish or delete a few boxes

Write = Callable[..., None]


def box_path(root: Path, job_id: str, attempt: int, rank: int) -> Path:
    return root / job_id / str(attempt) / f"rank-{rank}.box"


class BoxWriter:
    """A rank's black box, open for writing; not thread-safe, so only one thread may write."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # A random name until `publish`: in two containers, processes with the same pid may create the same box.
        self._unpublished = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
        try:
            self._fd = _create(path, self._unpublished)
        except OSError as error:
            raise _unavailable(path, error) from error
        self.seed = int.from_bytes(os.urandom(4), "little")
        # MAP_POPULATE maps all pages now, so that there are no page faults in the middle of training.
        self._map = mmap.mmap(self._fd, CURRENT.file_size, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE)
        self.view = memoryview(self._map)
        self._identity = self._cell(CURRENT.identity)
        self.place = self._cell(CURRENT.place)
        self.report = self._cell(CURRENT.report)
        self.losses = self._cell(CURRENT.losses)
        self._words = self._cell(CURRENT.words)
        self._words(0, 0, False, b"", b"", b"", b"")
        self.groups = self._cell(CURRENT.groups)
        self.live = self.view[CURRENT.live : CURRENT.ring].cast("q")  # written in place: calls would cost too much
        for number in range(layout.ENTERED, layout.NUM_LIVE, 2):
            self.number(number, 0)
        layout.PREFIX.pack_into(
            self.view, 0, layout.MAGIC, CURRENT.version, layout.RING_CAPACITY, CURRENT.file_size, self.seed
        )

    def identity(self, identity: Identity) -> None:
        self._identity(*packed_identity(identity))

    def last_words(
        self,
        unix_ns: int,
        kind: str,
        type_: str = "",
        message: str = "",
        where: str = "",
        root: str = "",
        in_collective: bool = False,
    ) -> None:
        """Write the last words of this rank; zmon.schema.rank.LastWords explains the values."""
        texts = field(type_, 64), field(message, 1024), field(where, 256), field(root, 512)
        self._words(unix_ns, layout.WORDS_KINDS.index(kind), in_collective, *texts)

    def publish(self) -> None:
        """Give the box its final name; call this once identity and state are written.

        Raises BoxUnavailable if another process holds a box of this name, or the file system refuses. A lock on the
        directory makes this safe if two jobs with the same job id start at the same moment.
        """
        try:
            with opened(self.path.parent, os.O_DIRECTORY) as folder:
                if not lock_folder(folder, _LOCK_SECONDS):
                    raise BoxUnavailable(
                        f"cannot publish the black box {self.path}",
                        "another process has locked its directory",
                        "End that process; the job continues unwatched",
                    )
                _refuse_if_held(self.path)
                self._unpublished.rename(self.path)
        except OSError as error:
            raise _unavailable(self.path, error) from error

    def discard(self) -> None:
        """Delete a box that was not published."""
        self._unpublished.unlink(missing_ok=True)
        os.close(self._fd)

    def tail(self) -> int:
        """Return a descriptor that appends to the file; it is for a signal handler and must never be closed."""
        return os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)

    def _cell(self, cell: Cell) -> Write:
        """Return a function that writes the values of a cell, in turn into its two slots."""
        pack, crc_pack, seed = cell.struct.pack_into, layout.CRC.pack_into, self.seed
        size = cell.struct.size
        offsets = (cell.offset, cell.offset + cell.slot_size)
        slots = tuple(self.view[start : start + size] for start in offsets)
        ends = tuple(self.view[start + size : start + size + 4] for start in offsets)
        counters = tuple(self.view[start : start + 8].cast("Q") for start in offsets)  # the C edge advances them too

        def write(*values: object) -> None:
            counter = max(counters[0][0], counters[1][0]) + 1
            turn = counter & 1
            slot = slots[turn]
            pack(slot, 0, counter, *values)  # raises if a value does not fit; the other slot is unchanged
            crc_pack(ends[turn], 0, crc32(slot, seed))

        return write

    def number(self, index: int, value: int) -> None:
        """Write one of the live numbers, followed by its complement."""
        self.live[index], self.live[index + 1] = value, ~value

    def boundary(self, image: memoryview) -> None:
        """Write the bytes of a boundary into the ring. They begin with its number, which gives it its place.

        Another thread may change a number of the image meanwhile. So the checksum is that of the copy.
        """
        number = int.from_bytes(image[:8], "little")
        start = CURRENT.ring + number % layout.RING_CAPACITY * CURRENT.boundary_size
        end = start + layout.BOUNDARY.size
        self.view[start:end] = image
        layout.CRC.pack_into(self.view, end, crc32(self.view[start:end], self.seed))


def _unavailable(path: Path, error: OSError) -> BoxUnavailable:
    is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    next_step = (
        f"Free space there, or set {VARIABLE} to another directory" if is_full else f"Set {VARIABLE} to a directory"
    )
    return BoxUnavailable(
        f"cannot create the black box {path}",
        error.strerror or str(error),
        f"{next_step} in memory that this user may write; the job continues unwatched",
    )


def _refuse_if_held(path: Path) -> None:
    """Raise BoxUnavailable if a living process holds the box at this path."""
    pid = None
    with contextlib.suppress(FileNotFoundError), opened(path) as old:
        pid = holder(old)
    if pid is not None:
        raise BoxUnavailable(
            f"process {pid} holds the black box {path}",
            "another job on this host has the same job id and is still running",
            "Give this job its own id with --job-id or ZMON_JOB_ID",
        )


def _create(path: Path, new: Path) -> int:
    """Create the file `new` for the box `path`, with the folders above it; return its descriptor. Raises OSError."""
    for _ in range(_MAX_TRIES):
        for directory in (path.parents[2], path.parents[1], path.parent):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            return _allocate(path, new)
    return _allocate(path, new)


def _allocate(path: Path, new: Path) -> int:
    """Allocate and lock the file.

    Raises FileNotFoundError if its folder was deleted meanwhile, as empty folders are.
    """
    for directory in (path.parents[1], path.parent):
        check_owner(directory)
    _refuse_if_held(path)
    fd = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(fd, 0, CURRENT.file_size)
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        new.unlink()
        os.close(fd)
        raise
    return fd
