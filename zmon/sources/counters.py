"""How much has this device counted in all, though its counters wrapped or began anew?

A device's attribute files under /sys, and totals that only grow. A counter that falls did one of two things:

- it wrapped: mlx5 keeps `out_of_sequence` and its kin in 32 bits, and so do drivers of old Ethernet cards;
- it began from 0 again: the driver was loaded anew, the interface was made anew, somebody cleared it (perfquery -R).

Prometheus takes any fall for the second; whoever takes differences of the JSON snapshot would see a negative one.
InfiniBand's own PortCounters do neither: 4, 8, 16 or 32 bits wide, they stop at their highest value until they are
cleared (InfiniBand Architecture Specification, volume 1, chapter 16.1).
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Collection
from pathlib import Path
from typing import Self

WRAP = 2**32
INTEGER = re.compile(r"(-?\d{1,20})$")

_NOT_OFFERED = frozenset({errno.ENOENT, errno.EINVAL, errno.EOPNOTSUPP, errno.ENODEV})  # of this kind, or now: no fault


class Totals:
    """What each counter of each device said when it was first read, and all that it counted since."""

    def __init__(self) -> None:
        self._seen: dict[str, dict[str, tuple[int, int]]] = {}  # by device and counter: last value, counted before it

    def total(self, device: str, counter: str, value: int) -> int:
        """The total, now that the counter says `value`."""
        counters = self._seen.setdefault(device, {})
        last, before = counters.get(counter, (value, 0))
        if value < last:
            before += WRAP if wrapped(last, value) else last
        counters[counter] = value, before
        return before + value

    def keep(self, devices: Collection[str]) -> None:
        """Forget all but these: another device may get the name."""
        for device in self._seen.keys() - devices:
            del self._seen[device]


def wrapped(last: int, value: int) -> bool:
    """Whether a counter that fell ran over 32 bits: it was near their end, and has not come far since."""
    return last < WRAP and value + WRAP - last < WRAP // 4


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
