"""Read the attribute files of a device in /sys, and note those with odd content.

Layout: Documentation/filesystems/sysfs.rst, one value per file.
"""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path
from typing import Self

INTEGER = re.compile(r"(-?\d{1,20})$")

# The kernel does not offer the value for this kind of device, or not in its present state. This is no fault.
_NOT_OFFERED = frozenset({errno.ENOENT, errno.EINVAL, errno.EOPNOTSUPP, errno.ENODEV})


class Attributes:
    """The attribute files of one device; `fault` describes the first that cannot be read or has odd content.

    A value that the kernel does not offer for this kind of device, or in its present state, is unknown and no fault.
    The folder stays open between reads, because most of the cost of a read in /sys is the lookup of the path.
    """

    def __init__(self, device: str, folder: str) -> None:
        self.fault: str | None = None
        self._device = device
        self._folder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._folder)

    def text(self, name: str) -> str | None:
        """Return the content of the file, or None if it cannot be read."""
        try:
            file = os.open(name, os.O_RDONLY, dir_fd=self._folder)
            try:
                return os.read(file, 256).decode(errors="replace").strip()
            finally:
                os.close(file)
        except OSError as error:
            if error.errno not in _NOT_OFFERED:
                self.note(f"cannot read {Path(name).name}: {error.strerror}")
            return None

    def find(self, name: str, pattern: re.Pattern[str]) -> str | None:
        """Return the first group of `pattern`, matched at the start of the file, or None."""
        text = self.text(name)
        if text is None or text.startswith("N/A"):  # "N/A (no PMA)": older kernels show counters that the port lacks
            return None
        match = pattern.match(text)
        if match is None:
            self.note(f"{Path(name).name} has odd content: {text[:40]!r}")
            return None
        return match[1]

    def number(self, name: str) -> int | None:
        """Return the integer in the file, or None."""
        digits = self.find(name, INTEGER)
        return None if digits is None else int(digits)

    def link(self, name: str) -> str:
        """Return the last name in the target of a symbolic link; empty if there is no link."""
        try:
            return os.readlink(name, dir_fd=self._folder).rpartition("/")[2]
        except OSError:
            return ""

    def note(self, fault: str) -> None:
        """Note a fault of the device in `fault`, unless there is one already."""
        self.fault = self.fault or f"{self._device}: {fault}"


def link_target(path: str) -> str:
    """Return the whole target of a symbolic link; empty if there is no link."""
    try:
        return str(Path(path).readlink())
    except OSError:
        return ""


def names_in(folder: str | Path) -> list[str]:
    """Return the names in a folder, unordered. Faster than iterdir(), which makes a Path of each: /sys can be long."""
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries]
