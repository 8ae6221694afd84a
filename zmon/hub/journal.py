"""The journal: the hub's record of all findings. One fault is one finding, also across restarts of the hub.

A finding opens, is updated, and resolves, as the detectors report it (`judge`). Each of these is a line in
`findings.jsonl`, except an update that leaves cause, severity, ranks and victims as they are. The last line of an id is
the valid one.

Later reports about the same fault update text and evidence. The id, the onset and the labels on the metric stay as
published, so that one fault is one alert. The severity can only rise, and new culprits are held for some seconds
(`culprit_hold`). A job has one active finding of each detector at a time, or one for each fault if the detector reports
separate faults.

The hub runs for months. Old resolved findings are dropped, their large evidence first, and the file is rewritten when
it has grown. A rewrite does not change lines that only another version of zmon can read.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import count
from pathlib import Path
from types import MappingProxyType

import msgspec
from msgspec import UNSET

from zmon.format import counted
from zmon.hub.culprit_hold import CulpritHold
from zmon.hub.json_lines import JsonLines
from zmon.hub.write_errors import WriteErrors
from zmon.job import merging
from zmon.schema.evidence import Evidence, StallEvidence
from zmon.schema.finding import Finding, decode_finding
from zmon.schema.names import STALL

log = logging.getLogger("zmon.journal")

RESOLVE_AFTER_SECONDS = 2.0  # a finding may be absent from a single pass by chance
MAX_RESOLVED = 1000  # resolved findings in memory and in the file
MAX_RESOLVED_IN_FULL = 50  # the newest keep large evidence that is in no capsule: 232 kB of JSON each at 1,024 ranks
_LOST = (
    "findings are published, but lost when the hub ends: free some disk space there, or give the hub another --data-dir"
)


class Labels(msgspec.Struct, frozen=True, omit_defaults=True):
    """The labels of a finding's metric, which do not change after it was published."""

    cause: str
    ranks: tuple[int, ...]
    hosts: tuple[str, ...]
    of_job: dict[str, str] = {}  # the labels of the job that its alerts carry, as they were when the finding opened


@dataclass(frozen=True, slots=True)
class _PublishedPart:
    """The part of a line that is not the finding itself."""

    published: Labels


@dataclass(frozen=True, slots=True)
class _IdPart:
    """The part of a line that every version of zmon can read."""

    id: str


class Journal:
    """All findings of this hub, on disk and in memory."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._findings: dict[str, Finding] = {}
        self._active: dict[str, Finding] = {}
        self._labels: dict[str, Labels] = {}
        self._absent_since: dict[str, float] = {}  # when the detector stopped reporting the finding, by id
        self._culprit_hold = CulpritHold()
        # Lines of another version, by id of the finding: this version reads them, and would write them differently.
        self._foreign_lines: dict[str, bytes] = {}
        self._unreadable: dict[str | bytes, bytes] = {}  # lines that this version cannot read, by id if they have one
        self.errors = WriteErrors(log, _LOST)
        self._file = JsonLines(path, self.errors, self._read, self._lines)
        self._file.open()

    @property
    def error(self) -> str | None:
        """The reason why findings cannot be written, or None."""
        return self.errors.error

    def move_times(self, seconds: float) -> None:
        """Move the stored times, because the clock was set by these seconds."""
        self._absent_since = {finding_id: since + seconds for finding_id, since in self._absent_since.items()}
        self._culprit_hold.move_times(seconds)

    def retry(self, now: float) -> None:
        """Write what could not be written, or read what could not be read, every few seconds; call it in every pass."""
        self._file.retry(now)

    def active(self) -> list[Finding]:
        """Return the findings that have not resolved."""
        return [*self._active.values()]

    def is_reported(self, finding: Finding) -> bool:
        """Return True unless the detector stopped reporting this active finding, which then resolves after 2 s."""
        return finding.id not in self._absent_since

    def published(self) -> list[Finding]:
        """Return the active findings with the labels of their metric as first published."""
        pairs = ((finding, self._labels[finding.id]) for finding in self.active())
        return [replace(f, cause=labels.cause, ranks=labels.ranks, hosts=labels.hosts) for f, labels in pairs]

    def labels_of_jobs(self) -> dict[str, dict[str, str]]:
        """Return the job's labels on the metric of each active finding, by id of the finding."""
        return {finding_id: self._labels[finding_id].of_job for finding_id in self._active}

    def all(self) -> list[Finding]:
        """Return all findings in memory, active or resolved, newest first."""
        return sorted(self._findings.values(), key=lambda f: f.detected, reverse=True)

    def open_or_update(
        self, finding: Finding, now: float, separate: bool = False, job_labels: Mapping[str, str] = MappingProxyType({})
    ) -> bool:
        """Open a finding, or update the active one about the same fault; return True if it was opened.

        `separate`: the detector reports separate faults, so only a finding of the same id is about the same fault.
        `job_labels`: the labels of the job that its alerts carry; the finding keeps those with which it was opened.
        """
        for current in self.active_of(finding.job_id, finding.detector):
            # A stall and a fault of a job that still moves are two findings.
            is_same_kind = not separate and current.is_stall == finding.is_stall
            if is_same_kind or _same_fault(current, finding.id):
                self._update(current, finding, now)
                return False
        ids = (f"{finding.id}-{second:x}" for second in count(int(now)))  # a later second if the clock was set back
        finding = replace(finding, id=next(new_id for new_id in ids if new_id not in self._findings))
        self._labels[finding.id] = Labels(finding.cause, finding.ranks, finding.hosts, dict(job_labels))
        self._store(finding)
        return True

    def _update(self, current: Finding, later: Finding, now: float) -> None:
        """Update an active finding with a later report about the same fault."""
        self._absent_since.pop(current.id, None)
        may_publish = self._culprit_hold.record(current, later, now)
        updated = merging.updated(current, later, may_publish)
        if _recorded_parts(updated) != _recorded_parts(current):
            self._store(updated)
        else:
            self._put(updated)

    def find(self, finding_id: str) -> Finding | None:
        """Return the finding of this id, active or resolved; None if it is not in memory."""
        return self._findings.get(finding_id)

    def published_as(self, finding: Finding) -> Finding:
        """Return the newest finding that was published about this fault, also if it is resolved; else the finding."""
        return next((other for other in self.all() if _same_fault(other, finding.id)), finding)

    def record_capsule(self, written: Finding) -> None:
        """Record that `written` is in the capsule at `written.capsule`.

        Once a resolved finding is in its capsule, the journal drops its large evidence.
        """
        current = self._findings.get(written.id)
        if current is None:
            return
        updated = replace(current, capsule=written.capsule)
        if written.resolved is not None and written.evidence == current.evidence:
            updated = _without_bulk(updated)
        if updated != current:
            self._store(updated)

    def attach(self, finding_id: str, evidence: Evidence) -> None:
        """Add evidence that arrived after the finding was published."""
        current = self._findings.get(finding_id)
        if current is not None and current.evidence.dropped is UNSET:
            self._store(replace(current, evidence=current.evidence.updated(evidence)))

    def resolve(self, job_id: str, detector: str, now: float, except_ids: Collection[str] = ()) -> None:
        """Resolve the detector's findings about the job, except these, once they have been absent for 2 s.

        Call it in every pass in which the detector does not report them.
        """
        for finding in self.active_of(job_id, detector):
            if finding.id in except_ids or any(_same_fault(finding, other) for other in except_ids):
                self._absent_since.pop(finding.id, None)
                continue
            if now - self._absent_since.setdefault(finding.id, now) >= RESOLVE_AFTER_SECONDS:
                del self._absent_since[finding.id]
                self._culprit_hold.forget(finding.id)
                self._store(replace(finding, resolved=now))

    def active_of(self, job_id: str, detector: str) -> list[Finding]:
        """Return the active findings of a detector about a job."""
        return [f for f in self._active.values() if (f.job_id, f.detector) == (job_id, detector)]

    def active_stalls(self, job_id: str) -> list[Finding]:
        """Return the active findings that say that the job does not move."""
        return [finding for finding in self.active_of(job_id, STALL) if finding.is_stall]

    def _put(self, finding: Finding) -> None:
        """Put a finding into memory."""
        self._findings[finding.id] = finding
        self._foreign_lines.pop(finding.id, None)
        if finding.resolved is None:
            self._active[finding.id] = finding
        elif self._active.pop(finding.id, None) is not None:
            self._prune()

    def _prune(self) -> None:
        """Drop the large evidence of old resolved findings, and the oldest ones altogether."""
        resolved = [f for f in self._findings.values() if f.resolved is not None]
        resolved.sort(key=lambda f: -(f.resolved or 0))
        for finding in resolved[MAX_RESOLVED_IN_FULL:MAX_RESOLVED]:
            self._findings[finding.id] = _without_bulk(finding)
        for finding in resolved[MAX_RESOLVED:]:
            del self._findings[finding.id], self._labels[finding.id]
            self._foreign_lines.pop(finding.id, None)

    def _store(self, finding: Finding) -> None:
        """Put a finding into memory and append it to the file."""
        line = self._line(finding)  # before `_put`, which may prune its labels if the clock was set back
        self._put(finding)
        self._file.append(line)

    def _line(self, finding: Finding) -> bytes:
        values = {field.name: getattr(finding, field.name) for field in fields(finding)}
        return msgspec.json.encode({**values, "published": self._labels[finding.id]}) + b"\n"

    def _read(self, lines: Sequence[bytes]) -> None:
        """Take the findings of earlier hubs.

        If the file could not be read for some time, a finding that opened meanwhile replaces an earlier one.
        """
        opened_meanwhile = {(f.job_id, f.detector): f.detected for f in self._active.values()}
        for line in lines:
            self._read_line(line)
        for f in self._findings.values():
            resolved = opened_meanwhile.get((f.job_id, f.detector))
            if f.resolved is None and f.id not in self._active and resolved is not None:
                self._findings[f.id] = replace(f, resolved=resolved)
                self._foreign_lines.pop(f.id, None)
        self._active = {f.id: f for f in self._findings.values() if f.resolved is None}
        self._prune()
        if self._unreadable:
            num_lines = counted(len(self._unreadable), "line")
            log.warning("%s: %s damaged or of another version of zmon: kept, and not shown", self._path, num_lines)

    def _read_line(self, line: bytes) -> None:
        """Read a line, which replaces an earlier one about the same finding."""
        try:
            finding = decode_finding(line)
            labels = msgspec.json.decode(line, type=_PublishedPart).published
        except msgspec.DecodeError:
            key = _id_of(line)
            self._unreadable.pop(key, None)
            self._unreadable[key] = line
            if len(self._unreadable) > MAX_RESOLVED:
                del self._unreadable[next(iter(self._unreadable))]
            self._findings.pop(str(key), None)
            return
        self._unreadable.pop(finding.id, None)
        self._labels[finding.id], self._findings[finding.id] = labels, finding
        if self._line(finding) == line + b"\n":
            self._foreign_lines.pop(finding.id, None)
        else:
            self._foreign_lines[finding.id] = line

    def _lines(self) -> Iterator[bytes]:
        """Yield the lines of the file, without outdated ones."""
        yield from (line + b"\n" for line in (*self._unreadable.values(), *self._foreign_lines.values()))
        yield from (self._line(f) for finding_id, f in self._findings.items() if finding_id not in self._foreign_lines)


def _id_of(line: bytes) -> str | bytes:
    """Return the id of a finding that this version cannot read; the line itself if it has none."""
    try:
        return msgspec.json.decode(line, type=_IdPart).id
    except msgspec.DecodeError:
        return line


def _recorded_parts(finding: Finding) -> tuple[object, ...]:
    """Return the parts of a finding whose change is worth a line in the file."""
    return finding.cause, finding.severity, finding.ranks, bool(finding.evidence_of(StallEvidence).victims)


def _without_bulk(finding: Finding) -> Finding:
    """Return the finding without the evidence that grows with the number of ranks."""
    return replace(finding, evidence=finding.evidence.without_bulk())


def _same_fault(finding: Finding, fault_id: str) -> bool:
    """Return True if the finding is about that fault: its id is `<fault_id>-<second in which it opened>`."""
    return finding.id.partition("-")[0] == fault_id
