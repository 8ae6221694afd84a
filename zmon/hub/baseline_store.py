"""The recorded baselines, on disk as `baselines/<name>.json`: one file holds the curve of all jobs of one name.

A person may delete a file, or copy it to another cluster. A file that has changed is read again.
"""

from __future__ import annotations

import fcntl
import logging
from pathlib import Path

import msgspec

from zmon.errors import ZmonError
from zmon.schema.curve import Point, ScalingCurve, in_order
from zmon.steplog.files import child_path, replace_file

log = logging.getLogger("zmon.baselines")

FOLDER = "baselines"  # name of the folder in the data directory
_SUFFIX = ".json"
_MAX = 1 << 31  # limit of ranks and seconds; its square is the limit of samples and bytes


class _File(msgspec.Struct):
    """The content of a file."""

    schema: int
    name: str
    points: list[Point]


class BaselineStore:
    """The curves in one folder, by name."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[str, tuple[tuple[int, int], ScalingCurve]] = {}  # (mtime, inode) of the file, and its curve
        self._unusable: dict[str, str] = {}

    def curve(self, name: str) -> ScalingCurve:
        """Return the curve of the jobs of that name; without points if nothing is recorded or the file is unusable."""
        path = self._path(name)
        try:
            stat = path.stat()
            version = stat.st_mtime_ns, stat.st_ino
            cached = self._read.get(name)
            if cached is None or cached[0] != version:
                content = msgspec.json.decode(path.read_bytes(), type=_File)
                cached = self._read[name] = version, ScalingCurve(name, _checked_points(content))
            self._unusable.pop(name, None)
            return cached[1]
        except (FileNotFoundError, NotADirectoryError):
            self._unusable.pop(name, None)
        except (OSError, ValueError) as error:
            if self._unusable.get(name) != str(error):
                log.error("cannot use %s: %s; jobs of that name have no recorded baseline", path, error)
            self._unusable[name] = str(error)
        self._read.pop(name, None)
        return ScalingCurve(name)

    def unusable(self, name: str) -> str | None:
        """Return why the file of that name could not be used when it was last read, or None."""
        return self._unusable.get(name)

    def record(self, name: str, *points: Point) -> Path:
        """Store these points, replacing those of the same sizes. Raises ZmonError if the file cannot be written."""
        path = self._path(name)
        self.curve(name)
        if name in self._unusable:
            raise ZmonError(
                f"cannot use {path}", self._unusable[name], "Move the file away; zmon then writes a new one"
            )
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with (self._folder / ".lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)  # a hub and `zmon scaling` may write to the same folder
                curve = self.curve(name)
                for point in points:
                    curve = curve.with_point(point)
                replace_file(path, [msgspec.json.encode(_File(1, name, list(curve.points)))])
        except OSError as error:
            raise ZmonError(
                f"cannot write {path}", error.strerror or str(error), "Free some disk space, or set ZMON_DATA_DIR"
            ) from error
        return path

    def _path(self, name: str) -> Path:
        return child_path(self._folder, name, _SUFFIX)


def _checked_points(content: _File) -> tuple[Point, ...]:
    """Return the points of a file, which a person may have edited. Raises ValueError for impossible numbers."""
    if content.schema != 1:
        raise ValueError(f"schema {content.schema} belongs to another version of zmon")
    for p in content.points:
        counts = (p.ranks, p.ranks_per_host or 1, p.processors_per_host or 1)
        amounts = (p.half_width_seconds or 0.0, *p.causes.values(), *p.sent_bytes.values())
        counts_fit = all(1 <= count <= _MAX for count in counts) and 1 <= p.samples <= _MAX**2
        if not counts_fit or not 0 < p.seconds < _MAX or not all(0 <= amount < _MAX**2 for amount in amounts):
            raise ValueError(f"the point of {p.ranks} ranks and {p.samples} samples has an impossible number")
    return in_order(content.points)
