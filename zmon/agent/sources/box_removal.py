"""Delete the files of a dead rank: its box, its socket, its unfinished files, and then empty folders.

The folders belong to the user of the job, who may exchange them for links at any moment, and this process may be root.
So the owner of each folder is checked after it is opened, and only files of that user are deleted.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from zmon.agent.worker_socket import worker_socket
from zmon.box.lock import opened
from zmon.box.rank_files import is_plan

UNFINISHED_SECONDS = 60.0  # a living rank needs less time than this to make its box
_BOX = re.compile(r"rank-\d+\.box")
_UNFINISHED_BOX = re.compile(r"\.rank-\d+\.box\..+")


def remove_rank(
    box: Path, inode: int, owner: int, named_socket: str, short_paths: Path, follow_root: bool = False
) -> None:
    """Delete the files of the dead rank with this box. Raises OSError if they cannot be deleted.

    If a rank that has just started has replaced the box, nothing is deleted. `follow_root`: the directory of boxes may
    be a link. Give it only if users cannot exchange that directory: two pods may have the same user.
    """
    with _opened(box.parent, owner, follow_root) as (folder, job, root):
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)  # no rank publishes a box meanwhile
        with contextlib.suppress(FileNotFoundError):
            if os.stat(box.name, dir_fd=folder, follow_symlinks=False).st_ino != inode:
                return
            os.unlink(box.name, dir_fd=folder)
        socket = worker_socket(box, owner, named_socket, short_paths).path
        _unlink_socket(box.with_suffix(".sock").name, folder, owner)
        if socket.parent == short_paths:
            with opened(short_paths, os.O_DIRECTORY, follow=True) as shared:
                _unlink_socket(socket.name, shared, owner)
        for name in _leftovers(folder):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=folder)
        with contextlib.suppress(OSError):  # the folders still have boxes of other ranks
            os.rmdir(box.parent.name, dir_fd=job)
            os.rmdir(box.parent.parent.name, dir_fd=root)


def _leftovers(folder: int) -> Iterator[str]:
    """Yield unfinished boxes of ranks that died while they made them, and the plan if no box is left."""
    names = os.listdir(folder)
    for name in names:
        if _UNFINISHED_BOX.fullmatch(name):
            with contextlib.suppress(FileNotFoundError):
                status = os.stat(name, dir_fd=folder, follow_symlinks=False)
                if time.time() - status.st_mtime > UNFINISHED_SECONDS:
                    yield name
    if not any(_BOX.fullmatch(name) for name in names):
        yield from filter(is_plan, names)


@contextlib.contextmanager
def _opened(attempt: Path, owner: int, follow_root: bool) -> Iterator[tuple[int, int, int]]:
    """Yield descriptors of the folders of the attempt, of its job, and of the boxes. Raises OSError."""
    with (
        opened(attempt.parent.parent, os.O_DIRECTORY, follow=follow_root) as root,
        opened(attempt.parent.name, os.O_DIRECTORY, root) as job,
        opened(attempt.name, os.O_DIRECTORY, job) as folder,
    ):
        for fd in (job, folder):
            if os.fstat(fd).st_uid != owner:
                raise PermissionError(1, f"its folder does not belong to uid {owner}")
        yield folder, job, root


def _unlink_socket(name: str, folder: int, owner: int) -> None:
    with contextlib.suppress(FileNotFoundError):
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISSOCK(status.st_mode) and status.st_uid == owner:
            os.unlink(name, dir_fd=folder)
