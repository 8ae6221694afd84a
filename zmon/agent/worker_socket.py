"""Open the Unix socket of a rank's worker server, and make sure that it is no other socket.

The job writes the path of its socket into the box, and the agent may be root. So only two paths count: the one beside
the box, and the short one in `/tmp` that a rank uses if that path is too long. The socket must belong to the owner of
the box. It is opened first and checked afterwards, and the connection goes to the file that was checked.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from zmon.box.rank_files import SHORT_PATHS, is_short_socket

NO_SERVER = "the job has no worker server (torch < 2.9?)"


class WorkerSocket(NamedTuple):
    """The socket that may belong to a box."""

    path: Path
    owner: int  # uid of the owner of the box
    path_in_box: str = ""  # "": the rank has no worker server

    @contextlib.contextmanager
    def opened(self) -> Iterator[Path]:
        """Yield a path that leads to the checked socket and to no other. Raises NoSocket."""
        if not self.path_in_box:
            raise NoSocket(NO_SERVER)
        try:
            fd = os.open(self.path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            if str(self.path) != self.path_in_box:
                raise NoSocket(f"the box names {self.path_in_box}, which is not its own socket: not asked") from error
            raise NoSocket(f"cannot reach the rank's worker server: {error.strerror}") from error
        try:
            status = os.fstat(fd)
            if not stat.S_ISSOCK(status.st_mode):
                raise NoSocket(f"{self.path} is not a socket: not asked")
            if status.st_uid != self.owner:
                raise NoSocket(f"{self.path} belongs to uid {status.st_uid}, the box to uid {self.owner}: not asked")
            yield Path(f"/proc/self/fd/{fd}")
        finally:
            os.close(fd)


class NoSocket(Exception):
    """There is no socket that the agent may use; the message has the reason."""


def worker_socket(box: Path, owner: int, path_in_box: str, short_paths: Path = SHORT_PATHS) -> WorkerSocket:
    """Return the socket of a box: the short path if the box names one, else the path beside the box.

    In a container the path in the box may differ from the path that the agent sees.
    """
    path = Path(path_in_box)
    is_short = path.parent == short_paths and is_short_socket(path.name)
    return WorkerSocket(path if is_short else box.with_suffix(".sock"), owner, path_in_box)
