"""The table of mounts of a process: which file system has a path, and of which type it is.

Source: proc_pid_mountinfo(5). The table answers without access to a path, which could wait for a server that is down.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

OWN_MOUNTS = Path("/proc/self/mountinfo")
_LINE = re.compile(r"^\d+ \d+ (\d+:\d+) (\S+) (\S+) .*? - (\S+) ", re.M)
_ESCAPED = re.compile(r"\\([0-7]{3})")  # a space, tab, newline or backslash in a path of the table


class Mount(NamedTuple):
    """One line of the table."""

    device: str  # its number, `major:minor`
    root: str  # the folder of the file system that is mounted; "/": all of it
    point: Path  # where it is mounted
    type: str  # of the file system, such as tmpfs or ext4


def read_mounts(table: Path) -> Iterator[Mount]:
    """Yield the mounts in the order of the table; on one point, the last mount hides the others. Raises OSError."""
    for device, root, point, kind in _LINE.findall(table.read_text(errors="replace")):
        unescaped = _ESCAPED.sub(lambda octal: chr(int(octal[1], 8)), point)
        yield Mount(device, root, Path(unescaped), kind)


def file_system(path: Path, table: Path = OWN_MOUNTS) -> str:
    """Return the type of the file system of a path; empty if it is unknown. Raises OSError."""
    device = path.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    return next((mount.type for mount in read_mounts(table) if mount.device == number), "")


def file_system_without_access(path: Path, table: Path) -> str:
    """Return the type of the file system of a path, which need not exist; empty if it is unknown."""
    try:
        above = [mount for mount in read_mounts(table) if path.is_relative_to(mount.point)]
    except OSError:
        return ""
    return sorted(above, key=lambda mount: len(mount.point.parts))[-1].type if above else ""
