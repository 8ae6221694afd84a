"""The recorded baselines, on disk as `baselines/<name>.json`: one file holds the curve of all jobs of one name."""

from __future__ import annotations

import fcntl
from pathlib import Path

import msgspec

from zmon.errors import ZmonError
from zmon.hub.json_folder import JsonFolder, decoder
from zmon.schema.curve import Point, ScalingCurve, in_order

FOLDER = "baselines"  # name of the folder in the data directory
_MAX = 1 << 31  # limit of ranks and seconds; its square is the limit of samples and bytes


class _File(msgspec.Struct):
    schema: int
    name: str
    points: list[Point]


_decode_unchecked = decoder(_File)


class BaselineStore(JsonFolder[_File]):
    """The curves in one folder, by name."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, _decode, if_unusable="jobs of that name have no recorded baseline", sync=True)

    def curve(self, name: str) -> ScalingCurve:
        """Return the curve of the jobs of that name; without points if nothing is recorded or the file is unusable."""
        content = self.get(name)
        return ScalingCurve(name, in_order(content.points) if content else ())

    def record(self, name: str, *points: Point) -> Path:
        """Store these points, replacing those of the same sizes. Raises ZmonError if the file cannot be written."""
        path = self.path(name)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with (self.folder / ".lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)  # a hub and `zmon scaling` may write to the same folder
                curve = self.curve(name)
                if unusable := self.unusable.get(name):  # `curve` has just set it
                    raise ZmonError(f"cannot use {path}", unusable, "Move the file away; zmon then writes a new one")
                for point in points:
                    curve = curve.with_point(point)
                self.replace(name, _File(schema=1, name=name, points=list(curve.points)))
        except OSError as error:
            raise ZmonError(
                f"cannot write {path}", error.strerror or str(error), "Free some disk space, or set ZMON_DATA_DIR"
            ) from error
        return path


def _decode(data: bytes) -> _File:
    """Return the content of a file, which a person may have edited. Raises ValueError for impossible numbers."""
    content = _decode_unchecked(data)
    for p in content.points:
        counts = (p.ranks, p.ranks_per_host or 1, p.processors_per_host or 1)
        amounts = (p.half_width_seconds or 0.0, *p.causes.values(), *p.sent_bytes.values())
        counts_fit = all(1 <= count <= _MAX for count in counts) and 1 <= p.samples <= _MAX**2
        if not counts_fit or not 0 < p.seconds < _MAX or not all(0 <= amount < _MAX**2 for amount in amounts):
            raise ValueError(f"the point of {p.ranks} ranks and {p.samples} samples has an impossible number")
    return content
