"""The folder of incidents on disk: one directory for each incident; old ones are pruned.

    incidents/<finding id>/    finding.json  capsule.json  steps.jsonl  report.html

A new directory is written under another name and renamed. In an existing one each file is replaced by rename, after all
new files are written. A reader never sees half a file, and a full disk leaves the old files. Files of another version
that this one cannot read are kept beside the new ones, as `<name>.unusable`.
"""

from __future__ import annotations

import contextlib
import math
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
from zmon.steplog.files import SteadyClock, child_path, replace_file

FOLDER = "incidents"  # name of the folder in the data directory
FINDING, CAPSULE, STEPS, REPORT = "finding.json", "capsule.json", "steps.jsonl", "report.html"
MAX_AGE_SECONDS = 30 * 86400.0
MAX_BYTES = 1 << 30  # size of all incidents together
_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z-]{0,63}")
# Built here and not at the first answer: msgspec 0.22 crashes if two threads see a type for the first time at once.
_CAPSULE_DECODER, _SUMMARY_DECODER = msgspec.json.Decoder(Capsule), msgspec.json.Decoder(IncidentSummary)


class CapsuleStore:
    """The incidents of one hub."""

    def __init__(self, data_dir: Path, clock: SteadyClock | None = None) -> None:
        self.root = data_dir / FOLDER
        self._clock = clock or SteadyClock()

    def directory(self, incident_id: str) -> Path:
        """Return the directory of an incident. Raises UsageError if the id, which a user has sent, is malformed."""
        if not _ID.fullmatch(incident_id):
            raise UsageError(f"{incident_id[:80]!r} is not an incident id", "", "`zmon incident` lists the incidents")
        return child_path(self.root, incident_id)

    def write(self, capsule: Capsule, rows: bytes | None = None) -> Path:
        """Write a capsule and return its directory. Raises OSError, and then leaves the old files.

        `rows`: the content of steps.jsonl; None: keep the present one.
        """
        directory = self.directory(capsule.finding.id)
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)  # jobs' messages are private to the user
        if rows is None:
            present = directory / STEPS
            rows = present.read_bytes() if present.is_file() else b""
        files = {
            STEPS: rows,
            CAPSULE: msgspec.json.encode(capsule),  # before the page: it says who may read the page
            REPORT: report(capsule, steps.read(rows)).encode(),
            FINDING: msgspec.json.encode(capsule.finding),
        }
        temporary = Path(tempfile.mkdtemp(prefix=f".{directory.name}.", dir=self.root))
        try:
            for name, data in files.items():
                replace_file(temporary / name, [data])
            if directory.is_dir():
                _keep_unusable(directory)
                for name in files:
                    (temporary / name).replace(directory / name)
            else:
                temporary.rename(directory)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        return directory

    def read(self, incident_id: str) -> Capsule | None:
        """Return the capsule, or None if there is none that can be read."""
        try:
            return _CAPSULE_DECODER.decode((self.directory(incident_id) / CAPSULE).read_bytes())
        except (OSError, msgspec.DecodeError):
            return None

    def summaries(self) -> list[IncidentSummary]:
        """Return the summaries of all incidents, newest first, except those that cannot be read."""
        summaries = []
        for directory in self._directories():
            try:
                summary = _SUMMARY_DECODER.decode((directory / FINDING).read_bytes())
            except (OSError, msgspec.DecodeError):
                continue
            summaries.append(replace(summary, path=str(directory)))
        return sorted(summaries, key=lambda summary: summary.detected, reverse=True)

    def prune(self, active: Collection[str]) -> list[str]:
        """Delete incidents older than 30 days, and the oldest ones if all together exceed 1 GiB; return their ids.

        Active incidents are never deleted. Age counts only while the clock is steady.
        """
        max_age = MAX_AGE_SECONDS if self._clock.is_steady() else math.inf
        now = time.time()
        free_bytes = MAX_BYTES
        deleted = []
        ages = {directory: now - _modified(directory) for directory in self._directories()}
        for directory, age in sorted(ages.items(), key=lambda item: item[1]):
            free_bytes -= _size(directory)
            if directory.name not in active and (age > max_age or free_bytes < 0):
                shutil.rmtree(directory, ignore_errors=True)
                deleted.append(directory.name)
        return deleted

    def clear(self) -> None:
        """Delete the unfinished directories of a hub that was killed."""
        if self.root.is_dir():
            for unfinished in self.root.glob(".*"):
                shutil.rmtree(unfinished, ignore_errors=True)

    def _directories(self) -> list[Path]:
        try:
            return [path for path in self.root.iterdir() if _ID.fullmatch(path.name) and path.is_dir()]
        except OSError:
            return []


def _keep_unusable(directory: Path) -> None:
    """Rename the files of an incident whose capsule cannot be decoded. Raises OSError if it cannot be read."""
    try:
        _CAPSULE_DECODER.decode((directory / CAPSULE).read_bytes())
    except FileNotFoundError:
        pass
    except msgspec.DecodeError:
        for name in (STEPS, CAPSULE, REPORT, FINDING):
            with contextlib.suppress(FileNotFoundError):
                (directory / name).rename(directory / f"{name}.unusable")


def _modified(directory: Path) -> float:
    """Return when the finding was last written, in unix seconds; 0, which is old, if there is no finding.

    Infinity, which is never old, if the disk does not tell. The time of the directory itself does not change with the
    contents of its files.
    """
    try:
        return (directory / FINDING).stat().st_mtime
    except FileNotFoundError:
        return 0.0
    except OSError:
        return math.inf


def _size(directory: Path) -> int:
    try:
        return sum(path.stat().st_size for path in directory.iterdir())
    except OSError:
        return 0
