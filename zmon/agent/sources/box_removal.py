"""Delete the files of a dead rank: its box, its socket, its unfinished files, and then empty folders.

The folders belong to the user of the job, who may exchange them for links at any moment, and this process may be root.
So the owner of each folder is checked after it is opened, and only files of that user are deleted.
"""

from __future__ import annotations

import contextlib
import errno
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

    Nothing is deleted if the box does not have this inode any more: a rank that has just started has replaced it.
    `named_socket`: the path of its socket in the box. `short_paths`: the folder of sockets with short paths.
    `follow_root`: the directory of boxes may be a link. It must be False if users can exchange that directory, because
    two pods may have the same user.
    """
    attempt, job = box.parent, box.parent.parent
    with (
        opened(job.parent, os.O_DIRECTORY, follow=follow_root) as root_fd,
        opened(job.name, os.O_DIRECTORY, root_fd) as job_fd,
        opened(attempt.name, os.O_DIRECTORY, job_fd) as attempt_fd,
    ):
        if {os.fstat(job_fd).st_uid, os.fstat(attempt_fd).st_uid} != {owner}:
            raise PermissionError(errno.EPERM, f"its folder does not belong to uid {owner}")
        fcntl.flock(attempt_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)  # no rank publishes a box meanwhile
        with contextlib.suppress(FileNotFoundError):
            if os.stat(box.name, dir_fd=attempt_fd, follow_symlinks=False).st_ino != inode:
                return
            os.unlink(box.name, dir_fd=attempt_fd)
        _unlink_socket(box.with_suffix(".sock").name, attempt_fd, owner)
        socket = worker_socket(box, owner, named_socket, short_paths).path
        if socket.parent == short_paths:
            with opened(short_paths, os.O_DIRECTORY, follow=True) as shared_fd:
                _unlink_socket(socket.name, shared_fd, owner)
        for name in _leftovers(attempt_fd):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=attempt_fd)
        with contextlib.suppress(OSError):  # the folders still have boxes of other ranks
            os.rmdir(attempt.name, dir_fd=job_fd)
            os.rmdir(job.name, dir_fd=root_fd)


def _leftovers(attempt_fd: int) -> Iterator[str]:
    """Yield unfinished boxes of ranks that died while they made them, and the plan if no box is left."""
    names = os.listdir(attempt_fd)
    for name in names:
        if _UNFINISHED_BOX.fullmatch(name):
            with contextlib.suppress(FileNotFoundError):
                status = os.stat(name, dir_fd=attempt_fd, follow_symlinks=False)
                if time.time() - status.st_mtime > UNFINISHED_SECONDS:
                    yield name
    if not any(_BOX.fullmatch(name) for name in names):
        yield from filter(is_plan, names)


def _unlink_socket(name: str, folder_fd: int, owner: int) -> None:
    with contextlib.suppress(FileNotFoundError):
        status = os.stat(name, dir_fd=folder_fd, follow_symlinks=False)
        if stat.S_ISSOCK(status.st_mode) and status.st_uid == owner:
            os.unlink(name, dir_fd=folder_fd)
