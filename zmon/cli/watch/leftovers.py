"""Deletes the boxes of a launch that `zmon watch` has watched, unless an agent reads them as well.

A write lease (fcntl(2), F_SETLEASE) is granted only on a file that nobody else has open. So the agents of all users and
containers of this machine are noticed, and none of them needs to know about watch.
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


def remove_boxes(root: Path, job_ids: Iterable[str], launch_number: int) -> None:
    """Delete the boxes of dead ranks of this launch. A box that cannot be deleted stays, until a later rank starts."""
    for job_id in job_ids:
        for box in child_path(root, job_id).glob("*/rank-*.box"):
            with contextlib.suppress(OSError, BoxError):
                _remove(box, launch_number)


def _remove(box: Path, launch_number: int) -> None:
    """Delete a box, unless it is of another launch, its rank lives, or somebody reads it. Raises OSError, BoxError."""
    reader = BoxReader(box)
    try:
        identity = reader.identity()
        is_dead = reader.holder() is None
    finally:
        reader.close()
    if identity.watch != launch_number or not is_dead:
        return
    _close_in_this_process(box)
    with opened(box) as file:
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)  # raises OSError if somebody has it open
    # follow_root: the root belongs to this user, who may have made it a link.
    remove_rank(box, reader.inode, reader.owner, identity.socket, SHORT_PATHS, follow_root=True)


def _close_in_this_process(box: Path) -> None:
    """Close the descriptors of a box that the agent of watch has left open; its threads have ended."""
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - names of descriptors
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/self/fd/{name}") == str(box):  # noqa: PTH115 - not a path of a file
                os.close(int(name))
