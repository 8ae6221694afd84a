"""The launch that a `zmon watch` watches. It has a number, which the boxes of its ranks have as well.

A launcher such as srun may start one watch for each rank. All watches of one launch on a node have the same parent, and
therefore the same number; the first one watches, and the others become their commands.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from zmon.errors import BoxUnavailable
from zmon.probe.launch_id import boot_id
from zmon.process import process_stat

# The variables that tell a rank its number, with those that tell the size of its launch.
_RANK_VARIABLES = (
    ("RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),  # a batch script has SLURM_PROCID as well, but is no step
)
_MAX_NUMBER = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Launch:
    """The launch under a watch."""

    number: int  # in the boxes of its ranks
    is_shared: bool  # a launcher started one watch for each rank


def this_launch(env: Mapping[str, str]) -> Launch:
    """Return the launch that this process belongs to. Its number is random, unless other watches must find it too."""
    if not any(env.get(rank) and _is_many(env.get(size, "")) for rank, size in _RANK_VARIABLES):
        return Launch(1 + secrets.randbelow(_MAX_NUMBER), is_shared=False)
    parent = os.getppid()
    stat = process_stat(parent)
    number = zlib.crc32(f"{boot_id()} {parent} {stat.start_ticks if stat else 0}".encode()) & _MAX_NUMBER
    return Launch(number or 1, is_shared=True)


def take_lock(launch: Launch, root: Path) -> bool:
    """Lock the launch on this node until this process ends; return False if another watch of the launch has the lock.

    A launch that is not shared needs no lock. `root`: the directory of the boxes of this user. Raises BoxUnavailable if
    the file of the lock cannot be made there.
    """
    if not launch.is_shared:
        return True
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(_lock_file(launch, root), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        next_step = "Make room there, or set ZMON_BOX_DIR to another directory"
        raise BoxUnavailable(f"cannot write to {root}", error.strerror or "", next_step) from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return False
    return True  # the descriptor stays open; the kernel drops the lock when this process ends


def remove_lock_file(launch: Launch, root: Path) -> None:
    if launch.is_shared:
        _lock_file(launch, root).unlink(missing_ok=True)


def _lock_file(launch: Launch, root: Path) -> Path:
    return root / f".watch-{launch.number}"


def _is_many(size: str) -> bool:
    return size.isdecimal() and int(size) > 1
