"""Read the attribute files of devices in /sys, note those with odd content, and turn counters into totals.

Layout: Documentation/filesystems/sysfs.rst, one value per file.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Self, TypeVar

T = TypeVar("T")
WRAP = 2**32
INTEGER = re.compile(r"(-?\d{1,20})$")

# The kernel does not offer the value for this kind of device, or not in its present state. This is no fault.
_NOT_OFFERED = frozenset({errno.ENOENT, errno.EINVAL, errno.EOPNOTSUPP, errno.ENODEV})


class Attributes:
    """The attribute files of one device; `fault` describes the first file that cannot be read or has odd content.

    The folder stays open between reads, because most of the cost of a read in /sys is the lookup of the path.
    """

    def __init__(self, device: str, folder: str) -> None:
        self.fault: str | None = None
        self.device = device
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
        self.fault = self.fault or f"{self.device}: {fault}"


def sample_each(
    folders: Mapping[str, str], sample: Callable[[str, Attributes], T | None], dropped: list[str]
) -> list[T]:
    """Return the sample of each device, given the folders by name. A device that fails is dropped."""
    samples = []
    for name, folder in folders.items():
        try:
            with Attributes(name, folder) as files:
                value = sample(name, files)
        except FileNotFoundError:  # it disappeared after the listing
            continue
        except OSError as error:
            dropped.append(f"{name}: {error.strerror}")
            continue
        if value is not None:
            samples.append(value)
        if files.fault is not None:
            dropped.append(files.fault)
    return samples


class CounterTotals:
    """The total of each counter of each device, which never falls: its first value plus all that it counted since.

    A counter falls for one of three reasons:

    - It wrapped. mlx5 keeps counters such as `out_of_sequence` in 32 bits, and so do drivers of old Ethernet cards.
    - It restarted from 0: the driver was reloaded, the interface was created anew, or a person cleared it (perfquery).
    - It dips a little, because the kernel sums over processors while they count.

    Prometheus takes any fall for a restart, and differences of the JSON snapshot would be negative. InfiniBand's own
    PortCounters do not wrap. They are 4, 8, 16 or 32 bits wide and stop at their highest value until they are cleared
    (InfiniBand Architecture Specification, volume 1, chapter 16.1).
    """

    def __init__(self) -> None:
        self._counters: dict[str, dict[str, tuple[int, int]]] = {}  # last value and base, by device and counter

    def read(self, files: Attributes, path: str) -> int | None:
        """Return the total of the counter in this file; None if it cannot be read."""
        value = files.number(path)
        return None if value is None else self.total(files.device, path, value)

    def total(self, device: str, counter: str, value: int) -> int:
        """Return the total, given the value of the counter now."""
        counters = self._counters.setdefault(device, {})
        last, base = counters.get(counter, (value, 0))  # the total is base + value
        if has_wrapped(last, value):
            base += WRAP
        elif value < last // 2:  # it restarted
            base += last
        elif value < last:  # a small dip
            value = last
        counters[counter] = value, base
        return base + value

    def keep(self, devices: Collection[str]) -> None:
        """Forget all devices except these, because another device may get the same name later."""
        for device in self._counters.keys() - devices:
            del self._counters[device]


def has_wrapped(last: int, value: int) -> bool:
    """Return True if a counter overflowed 32 bits and grew by less than a quarter of that range since the last read."""
    return value < last < WRAP and value + WRAP - last < WRAP // 4


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
