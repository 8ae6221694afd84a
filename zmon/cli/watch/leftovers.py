"""The boxes of a launch that `zmon watch` has watched: it deletes them, unless an agent reads them as well.

A write lease (fcntl(2), F_SETLEASE) is granted only on a file that nobody else has open. So any agent of this machine
counts, of any user and in any container, and needs to know nothing about watch.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterable
from pathlib import Path

from zmon.agent.sources.box_removal import remove_rank
from zmon.box.lock import opened
from zmon.box.rank_files import SHORT_PATHS
from zmon.box.reader import BoxReader
from zmon.errors import BoxError
from zmon.steplog.files import child_path


def remove_boxes(root: Path, job_ids: Iterable[str], watch: int) -> None:
    """Delete the boxes of dead ranks of this watch. A box that cannot be deleted stays, until a later rank starts."""
    for job_id in job_ids:
        for box in child_path(root, job_id).glob("*/rank-*.box"):
            with contextlib.suppress(OSError, BoxError):
                _remove(box, watch)


def _remove(box: Path, watch: int) -> None:
    reader = BoxReader(box)
    try:
        identity = reader.identity()
        is_dead = reader.holder() is None
    finally:
        reader.close()
    if identity.watch != watch or not is_dead:
        return
    _close_own(box)
    with opened(box) as file:
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)  # raises OSError if somebody has it open
    # The root is this user's own.
    remove_rank(box, reader.inode, reader.owner, identity.socket, SHORT_PATHS, follow_root=True)


def _close_own(box: Path) -> None:
    """Close what the agent in this process has left open; its threads have ended."""
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - names of descriptors
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/self/fd/{name}") == str(box):  # noqa: PTH115 - not a path of a file
                os.close(int(name))
