"""Incidents on disk: a directory each, whole or not there, the old ones pruned.

    incidents/<finding id>/    finding.json  capsule.json  steps.jsonl  report.html

A new one is written beside its place and renamed. One that is there gets each of its files anew the same way, once all
of them are written: a reader never sees half a file, and a disk that is full leaves the old ones.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import msgspec

from zmon.errors import UsageError
from zmon.hub.incidents import steps
from zmon.hub.incidents.report import report
from zmon.schema.incident import Brief, Capsule

FOLDER = "incidents"  # in the data directory
FINDING, CAPSULE, STEPS, REPORT = "finding.json", "capsule.json", "steps.jsonl", "report.html"
MAX_AGE_SECONDS = 30 * 86400.0
MAX_BYTES = 1 << 30  # of all together
_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z-]{0,63}")


class Folder:
    """The incidents of one hub."""

    def __init__(self, data_dir: Path) -> None:
        self.root = data_dir / FOLDER

    def place(self, incident_id: str) -> Path:
        """Where an incident lies. Raises UsageError where that is no id: it comes from whoever asks."""
        if not _ID.fullmatch(incident_id):
            raise UsageError(f"{incident_id[:80]!r} is no incident", "", "`zmon incident` lists them")
        return self.root / incident_id

    def write(self, capsule: Capsule, rows: bytes | None = None) -> Path:
        """Put it there; `rows`: its steps.jsonl, None: as it is there. Raises OSError, and leaves what is there."""
        place = self.place(capsule.finding.id)
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)  # what jobs say is theirs
        if rows is None:
            rows = _bytes(place / STEPS)
        files = {
            STEPS: rows,
            CAPSULE: msgspec.json.encode(capsule),
            REPORT: report(capsule, steps.read(rows)).encode(),
            FINDING: msgspec.json.encode(capsule.finding),
        }
        beside = Path(tempfile.mkdtemp(prefix=f".{place.name}.", dir=self.root))
        try:
            for name, data in files.items():
                _write(beside / name, data)
            if place.is_dir():
                for name in files:
                    (beside / name).replace(place / name)
            else:
                beside.rename(place)
        finally:
            shutil.rmtree(beside, ignore_errors=True)
        return place

    def read(self, incident_id: str) -> Capsule | None:
        """The capsule; None where there is none that can be read."""
        try:
            return msgspec.json.decode((self.place(incident_id) / CAPSULE).read_bytes(), type=Capsule)
        except (OSError, msgspec.DecodeError):
            return None

    def briefs(self) -> list[Brief]:
        """All of them, newest first. One that cannot be read is left out."""
        found = []
        for place in self._places():
            try:
                brief = msgspec.json.decode((place / FINDING).read_bytes(), type=Brief)
            except (OSError, msgspec.DecodeError):
                continue
            found.append(replace(brief, path=str(place)))
        return sorted(found, key=lambda brief: brief.detected, reverse=True)

    def prune(self, active: Collection[str]) -> list[str]:
        """Delete what is old, and the oldest of what is too much; never the active ones. Returns the ids."""
        now, room, gone = time.time(), MAX_BYTES, []
        ages = sorted(((now - _modified(place), place) for place in self._places()), key=lambda pair: pair[0])
        for age, place in ages:
            room -= _size(place)
            if place.name not in active and (age > MAX_AGE_SECONDS or room < 0):
                shutil.rmtree(place, ignore_errors=True)
                gone.append(place.name)
        return gone

    def clear(self) -> None:
        """Delete what a hub that was killed left half written."""
        if self.root.is_dir():
            for left in self.root.glob(".*"):
                shutil.rmtree(left, ignore_errors=True)

    def _places(self) -> list[Path]:
        try:
            return [path for path in self.root.iterdir() if _ID.fullmatch(path.name) and path.is_dir()]
        except OSError:
            return []


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def _modified(place: Path) -> float:
    """When its finding was last written: a directory's own time does not change with its files' contents."""
    try:
        return (place / FINDING).stat().st_mtime
    except OSError:
        return 0.0


def _size(place: Path) -> int:
    try:
        return sum(path.stat().st_size for path in place.iterdir())
    except OSError:
        return 0
