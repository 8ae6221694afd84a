"""Give each host a clock that a drill can set: a library compiled from clock.c and loaded before all others."""

from __future__ import annotations

import struct
from pathlib import Path

from lab.libraries import shared_library

_NANOSECONDS = struct.Struct("=q")


def library(folder: Path) -> Path:
    """Compile the library into this directory and return its path. Raises PartFailed without a C compiler."""
    return shared_library(Path(__file__).with_name("clock.c"), folder / "clock.so")


class Clock:
    """The clock of one host. It shows the real time until it is set."""

    def __init__(self, path: Path, library: Path) -> None:
        self._path, self._library = path, library
        self._path.write_bytes(_NANOSECONDS.pack(0))

    def set(self, seconds: float) -> None:
        """Set the clock to the real time plus `seconds`, for all processes that have its environment."""
        with self._path.open("r+b") as file:  # keep the inode, because processes have mapped the file
            file.write(_NANOSECONDS.pack(round(seconds * 1e9)))

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables of a process of the host."""
        return {"LD_PRELOAD": str(self._library), "DRILL_CLOCK": str(self._path)}
