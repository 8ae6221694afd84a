"""The folder of incidents on disk: one directory for each incident; old ones are pruned.

    incidents/<finding id>/    finding.json  capsule.json  steps.jsonl  report.html

A new directory is written under another name and renamed. In an existing one each file is replaced by rename, after all
new files are written. A reader never sees half a file, and a full disk leaves the old files.
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
from zmon.schema.incident import Capsule, IncidentSummary

FOLDER = "incidents"  # in the data directory
FINDING, CAPSULE, STEPS, REPORT = "finding.json", "capsule.json", "steps.jsonl", "report.html"
MAX_AGE_SECONDS = 30 * 86400.0
MAX_BYTES = 1 << 30  # of all incidents together
_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z-]{0,63}")


class Folder:
    """The incidents of one hub."""

    def __init__(self, data_dir: Path) -> None:
        self.root = data_dir / FOLDER

    def place(self, incident_id: str) -> Path:
        """Return the directory of an incident. Raises UsageError if the id, which a user has sent, is malformed."""
        if not _ID.fullmatch(incident_id):
            raise UsageError(f"{incident_id[:80]!r} is not an incident id", "", "`zmon incident` lists the incidents")
        return self.root / incident_id

    def write(self, capsule: Capsule, rows: bytes | None = None) -> Path:
        """Write a capsule and return its directory. Raises OSError, and then leaves the old files.

        `rows`: the content of steps.jsonl; None: keep the present one.
        """
        place = self.place(capsule.finding.id)
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)  # jobs' messages are private to the user
        if rows is None:
            rows = _bytes(place / STEPS)
        files = {
            STEPS: rows,
            CAPSULE: msgspec.json.encode(capsule),
            REPORT: report(capsule, steps.read(rows)).encode(),
            FINDING: msgspec.json.encode(capsule.finding),
        }
        new = Path(tempfile.mkdtemp(prefix=f".{place.name}.", dir=self.root))
        try:
            for name, data in files.items():
                _write(new / name, data)
            if place.is_dir():
                for name in files:
                    (new / name).replace(place / name)
            else:
                new.rename(place)
        finally:
            shutil.rmtree(new, ignore_errors=True)
        return place

    def read(self, incident_id: str) -> Capsule | None:
        """Return the capsule, or None if there is none that can be read."""
        try:
            return msgspec.json.decode((self.place(incident_id) / CAPSULE).read_bytes(), type=Capsule)
        except (OSError, msgspec.DecodeError):
            return None

    def briefs(self) -> list[IncidentSummary]:
        """Return all incidents, newest first, except those that cannot be read."""
        briefs = []
        for place in self._places():
            try:
                brief = msgspec.json.decode((place / FINDING).read_bytes(), type=IncidentSummary)
            except (OSError, msgspec.DecodeError):
                continue
            briefs.append(replace(brief, path=str(place)))
        return sorted(briefs, key=lambda brief: brief.detected, reverse=True)

    def prune(self, active: Collection[str]) -> list[str]:
        """Delete incidents older than 30 days, and the oldest ones if all together exceed 1 GiB; return their ids.

        Active incidents are never deleted.
        """
        now, space, deleted = time.time(), MAX_BYTES, []
        ages = sorted(((now - _modified(place), place) for place in self._places()), key=lambda pair: pair[0])
        for age, place in ages:
            space -= _size(place)
            if place.name not in active and (age > MAX_AGE_SECONDS or space < 0):
                shutil.rmtree(place, ignore_errors=True)
                deleted.append(place.name)
        return deleted

    def clear(self) -> None:
        """Delete the unfinished directories of a hub that was killed."""
        if self.root.is_dir():
            for unfinished in self.root.glob(".*"):
                shutil.rmtree(unfinished, ignore_errors=True)

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
    """Return when the finding was last written. A directory's own time does not change with its files' contents."""
    try:
        return (place / FINDING).stat().st_mtime
    except OSError:
        return 0.0


def _size(place: Path) -> int:
    try:
        return sum(path.stat().st_size for path in place.iterdir())
    except OSError:
        return 0
