"""Deletes what dead ranks of this user left behind, before a new rank makes its box.

The agent cannot delete the files of dead ranks in a directory that is mounted read-only for it, or that belongs to
another user. Each box takes 3.5 MB of memory.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import socket
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from zmon.box import live
from zmon.box.layout import LIVE, PREFIX
from zmon.box.lock import holder, opened
from zmon.box.rank_files import GRACE_SECONDS, SHORT_PATHS, is_plan, is_short_socket
from zmon.box.versions import LAYOUTS

MAX_FILES = 16_384  # of a folder, and folders of one sweep: it must not delay the rank
_BOX = re.compile(r"\.?rank-\d+\.box.*")


def sweep(root: Path, short_paths: Path = SHORT_PATHS) -> None:
    """Delete the boxes, sockets and plans of this user whose ranks died GRACE_SECONDS ago. Never raises OSError.

    A folder with a living rank is left alone, and so is one in which something was created or deleted since then:
    ranks may start in it. This process must not have a box yet: to open and close a box would drop its lock on it.
    """
    for folder in filter(_is_old, islice(_own_folders(root), MAX_FILES)):
        with contextlib.suppress(OSError), _locked(folder):
            _sweep_folder(folder)
    for path in _entries(short_paths):
        if is_short_socket(path.name) and _is_own(path) and _is_old(path) and _is_refused(path):
            _delete(path)


def _sweep_folder(folder: Path) -> None:
    """Delete the files of one attempt if all its ranks died long ago. Raises OSError if others have files there."""
    paths = list(_entries(folder))
    if not _is_old(folder):  # checked after the listing, which may lack what a starting rank creates
        return
    if all(_is_long_dead(path) for path in paths if _BOX.fullmatch(path.name)):
        for path in paths:
            if is_plan(path.name) or _BOX.fullmatch(path.name) or path.suffix == ".sock":
                _delete(path)
        folder.rmdir()
        folder.parent.rmdir()  # fails while it has other attempts


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder: no rank publishes a box meanwhile. Raises OSError if another process has it."""
    with opened(folder, os.O_DIRECTORY) as fd:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


def _own_folders(root: Path) -> Iterator[Path]:
    """Yield the folders of attempts that belong to this user."""
    for job in _entries(root):
        if _is_own(job):
            yield from (attempt for attempt in _entries(job) if _is_own(attempt))


def _is_long_dead(box: Path) -> bool:
    """Return True if the rank of a box died GRACE_SECONDS ago, as far as the box shows."""
    with contextlib.suppress(OSError), opened(box) as fd:
        return holder(fd) is None and not _was_alive(fd)
    return False


def _was_alive(fd: int) -> bool:
    """Return True if the box shows a change in the last GRACE_SECONDS; writes to mapped memory leave its time alone."""
    if time.time() - os.fstat(fd).st_mtime < GRACE_SECONDS:
        return True
    prefix = os.pread(fd, PREFIX.size, 0)
    layout = LAYOUTS.get(PREFIX.unpack(prefix)[1]) if len(prefix) == PREFIX.size else None
    raw = b"" if layout is None else os.pread(fd, LIVE.size, layout.live)
    state = live.state(LIVE.unpack(raw)) if len(raw) == LIVE.size else None
    return state is not None and 0 <= time.monotonic_ns() - state.since < GRACE_SECONDS * 1e9


def _is_refused(path: Path) -> bool:
    """Return True if it is a socket on which nobody listens."""
    if not path.is_socket():
        return False
    with socket.socket(socket.AF_UNIX) as client:
        client.setblocking(False)
        return client.connect_ex(str(path)) == errno.ECONNREFUSED


def _is_own(path: Path) -> bool:
    with contextlib.suppress(OSError):
        return path.lstat().st_uid == os.geteuid()
    return False


def _is_old(path: Path) -> bool:
    with contextlib.suppress(OSError):
        return time.time() - path.lstat().st_mtime > GRACE_SECONDS
    return False


def _entries(folder: Path) -> Iterator[Path]:
    with contextlib.suppress(OSError):
        yield from islice(folder.iterdir(), MAX_FILES)


def _delete(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()
