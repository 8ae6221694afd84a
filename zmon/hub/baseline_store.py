"""What was recorded of each kind of job, on disk: `baselines/<name>.json`, one curve a file.

A person may delete a file, or copy it to another cluster: it is read again whenever it has changed.
"""

from __future__ import annotations

import fcntl
import logging
import os
from pathlib import Path

import msgspec

from zmon.errors import ZmonError
from zmon.schema.curve import Curve, Point, in_order

log = logging.getLogger("zmon.baselines")

FOLDER = "baselines"  # in the data directory
_SUFFIX = ".json"
_MOST = 1 << 31  # ranks, seconds; its square: samples and bytes


class _File(msgspec.Struct):
    """What is in a file."""

    schema: int
    name: str
    points: list[Point]


class BaselineStore:
    """By name."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[str, tuple[tuple[int, int], Curve]] = {}  # when it was written and its inode; what it says
        self._unusable: dict[str, str] = {}

    def curve(self, name: str) -> Curve:
        """What was recorded of jobs of that name; no point where nothing was, or where nobody can read it."""
        path = self._path(name)
        try:
            stat = path.stat()
            version = stat.st_mtime_ns, stat.st_ino
            known = self._read.get(name)
            if known is None or known[0] != version:
                told = msgspec.json.decode(path.read_bytes(), type=_File)
                known = self._read[name] = version, Curve(name, _sound(told))
            self._unusable.pop(name, None)
            return known[1]
        except (FileNotFoundError, NotADirectoryError):
            self._unusable.pop(name, None)
        except (OSError, ValueError) as error:
            if self._unusable.get(name) != str(error):
                log.error("cannot use %s: %s; jobs of that name are judged against nothing", path, error)
            self._unusable[name] = str(error)
        self._read.pop(name, None)
        return Curve(name)

    def unusable(self, name: str) -> str | None:
        """Why the file of that name could not be read when it was asked for last."""
        return self._unusable.get(name)

    def record(self, name: str, *points: Point) -> Path:
        """Keep these, in place of what was recorded at their sizes. Raises ZmonError: it cannot be written."""
        path = self._path(name)
        self.curve(name)
        if name in self._unusable:
            raise ZmonError(f"cannot use {path}", self._unusable[name], "Move it away; it is made anew then")
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with (self._folder / ".lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)  # a hub and `zmon scaling` may write to one folder
                curve = self.curve(name)
                for point in points:
                    curve = curve.with_point(point)
                partial = self._folder / f".{name}.partial"
                with partial.open("wb") as file:
                    file.write(msgspec.json.encode(_File(1, name, list(curve.points))))
                    file.flush()
                    os.fsync(file.fileno())
                partial.replace(path)
        except OSError as error:
            raise ZmonError(
                f"cannot write {path}", error.strerror or str(error), "Free some room, or set ZMON_DATA_DIR"
            ) from error
        return path

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}{_SUFFIX}"


def _sound(told: _File) -> tuple[Point, ...]:
    """The points of a file that a person may have edited. Raises ValueError."""
    if told.schema != 1:
        raise ValueError(f"schema {told.schema} is of another version of zmon")
    for p in told.points:
        counts = (p.ranks, p.ranks_per_host or 1, p.processors_per_host or 1)
        amounts = (p.half_width_seconds or 0.0, *p.causes.values(), *p.sent_bytes.values())
        whole = all(1 <= count <= _MOST for count in counts) and 1 <= p.samples <= _MOST**2
        if not whole or not 0 < p.seconds < _MOST or not all(0 <= amount < _MOST**2 for amount in amounts):
            raise ValueError(f"the point of {p.ranks} ranks and {p.samples} samples has a number that none can have")
    return in_order(told.points)
