"""The living ranks under a job id on this host, so that two launches do not mix in one job.

A rank reads them before it makes its box, and holds the lock of the directory of boxes until its box is published. So
all living boxes of a job belong to one launch. The exception is the process that started the launch: it may have the
box of an earlier launch. Ranks import this module, so it reads only identities.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

from zmon.box import layout
from zmon.box.identity import Identity, unpacked_identity
from zmon.box.lock import holder, opened
from zmon.box.versions import CURRENT

_LOCK_SECONDS = 5.0  # a rank makes its box in some milliseconds; after this time it goes on without the lock


@contextlib.contextmanager
def creation_lock(root: Path) -> Iterator[None]:
    """Let no other rank of this user make a box meanwhile; without the directory there is no lock and no box."""
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)  # may be a link
    except OSError:
        yield
        return
    try:
        deadline = time.monotonic() + _LOCK_SECONDS
        while time.monotonic() < deadline:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:  # another rank has it
                time.sleep(0.005)
            except OSError:  # a file system without locks, which will have none later either
                break
        yield
    finally:
        os.close(fd)


def living_ranks(job: Path) -> Iterator[Identity]:
    """Yield the identities of the living ranks in the folder of a job, as far as they can be read."""
    with contextlib.suppress(OSError):
        for path in job.glob("*/rank-*.box"):
            with contextlib.suppress(OSError, ValueError), opened(path) as fd:
                if holder(fd) is not None and (identity := _identity(fd)):
                    yield identity


def _identity(fd: int) -> Identity | None:
    prefix = os.pread(fd, layout.PREFIX.size, 0)
    if len(prefix) < layout.PREFIX.size:
        return None
    _, version, _, _, seed = layout.PREFIX.unpack(prefix)
    if version != CURRENT.version:
        return None
    cell = CURRENT.identity
    newest = None
    for offset in (cell.offset, cell.offset + cell.slot_size):
        raw = os.pread(fd, cell.struct.size, offset)
        crc = os.pread(fd, layout.CRC.size, offset + cell.struct.size)
        if crc == layout.CRC.pack(crc32(raw, seed)):
            values = cell.struct.unpack(raw)
            newest = max(newest or values, values, key=lambda slot: slot[0])
    return None if newest is None else unpacked_identity(newest[1:])
