"""What do the attribute files of a device say, and which of them are odd?

Layout: Documentation/filesystems/sysfs.rst, one value per file.
"""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path
from typing import Self

INTEGER = re.compile(r"(-?\d{1,20})$")

_NOT_OFFERED = frozenset({errno.ENOENT, errno.EINVAL, errno.EOPNOTSUPP, errno.ENODEV})  # of this kind, or now: no fault


class Attributes:
    """The attribute files of one device. The first that cannot be read, or is odd, is told in `odd`.

    What the kernel does not offer for this kind of device, or in its present state, is unknown and not odd. The folder
    is held open in between: most of what a read in /sys costs is the way to the file.
    """

    def __init__(self, device: str, folder: str) -> None:
        self.odd: str | None = None
        self._device = device
        self._folder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._folder)

    def text(self, name: str) -> str | None:
        """What the file says."""
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

    def find(self, name: str, shape: re.Pattern[str]) -> str | None:
        """The part of the file that the shape's group matches, from the beginning."""
        text = self.text(name)
        if text is None or text.startswith("N/A"):  # "N/A (no PMA)": older kernels show counters the port lacks
            return None
        found = shape.match(text)
        if found is None:
            self.note(f"{Path(name).name} is odd: {text[:40]!r}")
            return None
        return found[1]

    def number(self, name: str) -> int | None:
        """The whole number that the file holds."""
        found = self.find(name, INTEGER)
        return None if found is None else int(found)

    def link(self, name: str) -> str:
        """What the symbolic link points to, by its last name; empty where there is none."""
        try:
            return os.readlink(name, dir_fd=self._folder).rpartition("/")[2]
        except OSError:
            return ""

    def note(self, fault: str) -> None:
        """Something about the device is odd."""
        self.odd = self.odd or f"{self._device}: {fault}"


def link_target(path: str) -> str:
    """The whole path that the symbolic link points to; empty where there is none."""
    try:
        return str(Path(path).readlink())
    except OSError:
        return ""


def names_in(folder: str | Path) -> list[str]:
    """What lies in the folder, in no order. Quicker than iterdir(), which makes a path of each: /sys can be long."""
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries]
