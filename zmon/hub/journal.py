"""The journal: the hub's record of all findings. One fault is one finding, also across restarts of the hub.

A finding opens, is updated, and resolves, as `Hub._update_journal` decides. Every change is a line in `findings.jsonl`;
the last line of an id is the valid one. Later reports about the same fault update text and evidence. The id, the onset
and the labels on the metric stay as published, which keeps one fault one alert; the severity can only rise. New
culprits replace the published ones after they have been reported for some seconds. A job has one active finding of each
detector at a time, or one for each fault if the detector reports separate faults.

Old resolved findings are dropped, their large evidence first, and the file is rewritten when it has grown: the hub runs
for months. Their ids are not used again. Lines of a newer zmon stay in the file, and a file that cannot be read is not
replaced.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

import msgspec
from msgspec import UNSET

from zmon.format import counted
from zmon.hub.json_folder import RETRY_SECONDS, WriteErrors
from zmon.job import merging
from zmon.schema.evidence import Evidence, StallEvidence
from zmon.schema.finding import Finding, decode_finding
from zmon.steplog.files import append_line, replace_file

log = logging.getLogger("zmon.journal")

RESOLVE_AFTER_SECONDS = 2.0  # a finding may be absent from a single pass by chance
HOLD_SECONDS = 3.0  # new culprits must be reported for this long: ranks that wait for each other may alternate
MAX_RESOLVED = 1000  # resolved findings in memory and in the file
MAX_DROPPED = 10_000  # faults whose findings were all dropped, and that still get new ids if they come again
MAX_RESOLVED_IN_FULL = 50  # of these keep their large evidence without a capsule: 232 kB of JSON at 1,024 ranks
REWRITE_BYTES = 32 << 20  # the file is rewritten at this size, or at twice its last rewritten size if that is more
_HANGS = {"compute_hang", "input_stall", "lease_overrun"}  # causes that follow from the phase that a rank is in
_LOST = (
    "findings are published, but lost when the hub ends: free some disk space there, or give the hub another --data-dir"
)


@dataclass(frozen=True, slots=True)
class Labels:
    """The labels of a finding's metric, which do not change after it was published."""

    cause: str
    ranks: tuple[int, ...]
    hosts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Line:
    published: Labels


class _Dropped(msgspec.Struct):
    """A line about the findings that are in the file no more."""

    last_numbers: dict[str, int] | None = None


class Journal:
    """All findings of this hub, on disk and in memory."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._findings: dict[str, Finding] = {}
        self._active: dict[str, Finding] = {}
        self._labels: dict[str, Labels] = {}
        self._absent_since: dict[str, float] = {}  # when the detector stopped reporting the finding, by id
        # New culprits, the time of their first report, and of their last report, by id of the finding.
        self._candidates: dict[str, tuple[tuple[int | str, ...], float, float]] = {}
        self._last_numbers: dict[str, int] = {}  # of the dropped findings about each fault, which keep their ids
        self._of_others: list[bytes] = []  # lines that a newer hub wrote and this one cannot decode
        self._is_loaded = False  # what is in the file is in memory, so that the file may be replaced
        self._rewrite_at = REWRITE_BYTES
        self.errors = WriteErrors(log, _LOST)
        self._unwritten = False  # a finding in memory is not in the file
        self._retried_at = 0.0
        with self.errors.watched(path):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)  # jobs' messages are private to the user
            self._read()
            path.touch(mode=0o600)

    @property
    def error(self) -> str | None:
        """The reason why findings cannot be written, or None."""
        return self.errors.error

    def move_times(self, seconds: float) -> None:
        """Move what waits for a time, because the clock was set by these seconds."""
        self._absent_since = {name: since + seconds for name, since in self._absent_since.items()}
        self._candidates = {
            name: (culprits, since + seconds, last_report + seconds)
            for name, (culprits, since, last_report) in self._candidates.items()
        }

    def retry(self, now: float) -> None:
        """Write what could not be written, or read what could not be read, every few seconds; call it in every pass."""
        if (self._unwritten or not self._is_loaded) and abs(now - self._retried_at) >= RETRY_SECONDS:
            self._retried_at = now
            with self.errors.watched(self._path):
                self._rewrite()

    def active(self) -> list[Finding]:
        """Return the findings that have not resolved."""
        return [*self._active.values()]

    def published(self) -> list[Finding]:
        """Return the active findings with the labels of their metric as first published."""
        return [replace(f, **asdict(self._labels[f.id])) for f in self.active()]

    def all(self) -> list[Finding]:
        """Return all findings in memory, active or resolved, newest first."""
        return sorted(self._findings.values(), key=lambda f: f.detected, reverse=True)

    def open_or_update(self, finding: Finding, now: float, separate: bool = False) -> bool:
        """Open a finding, or update the active one about the same fault; return True if it was opened.

        `separate`: the detector reports separate faults, so only a finding of the same id is about the same fault.
        """
        active = self.active_of(finding.job_id, finding.detector)
        # A stall and a fault of a job that still moves are two findings.
        same = [f for f in active if not separate and f.is_stall == finding.is_stall]
        current = next((f for f in active if f in same or _same_fault(f, finding.id)), None)
        if current is None:
            numbers = [_number(f.id) for f in self._findings.values() if _same_fault(f, finding.id)]
            if last := max(numbers, default=0) or self._last_numbers.get(finding.id, 0):
                finding = replace(finding, id=f"{finding.id}-{last + 1}")
            self._labels[finding.id] = Labels(finding.cause, finding.ranks, finding.hosts)
            self._store(finding)
            return True
        self._absent_since.pop(current.id, None)
        updated = merging.updated(current, finding, self._may_replace_culprits(current, finding, now))
        if _key(updated) != _key(current):
            self._store(updated)
        else:
            self._put(updated)
        return False

    def _may_replace_culprits(self, current: Finding, finding: Finding, now: float) -> bool:
        """Return True if the culprits of the later finding may be published.

        They may if they are the published ones, if nobody is published yet, or if they have been reported for 3 s. When
        a cut link heals, ranks are out of their collective for a moment, and none of them is to blame.
        The kind of a hang counts as well: a rank whose hang has just ended goes through other phases.
        """
        culprits, published = finding.culprits, current.culprits
        if {finding.cause, current.cause} <= _HANGS:
            culprits, published = (*culprits, finding.cause), (*published, current.cause)
        candidates, since, last_report = self._candidates.pop(current.id, (culprits, now, now))
        if not current.culprits or culprits == published:
            return True
        if candidates != culprits or now - last_report > HOLD_SECONDS:
            since = now
        self._candidates[current.id] = culprits, since, now
        return now - since >= HOLD_SECONDS

    def find(self, finding_id: str) -> Finding | None:
        """Return the finding with this id, or None."""
        return self._findings.get(finding_id)

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
                self._candidates.pop(finding.id, None)
                self._store(replace(finding, resolved=now))

    def active_of(self, job_id: str, detector: str) -> list[Finding]:
        """Return the active findings of a detector about a job."""
        return [f for f in self._active.values() if (f.job_id, f.detector) == (job_id, detector)]

    def _put(self, finding: Finding) -> None:
        self._findings[finding.id] = finding
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
        for finding in reversed(resolved[MAX_RESOLVED:]):
            del self._findings[finding.id], self._labels[finding.id]
            fault = finding.id.partition("-")[0]
            self._last_numbers[fault] = max(self._last_numbers.pop(fault, 0), _number(finding.id))
        self._last_numbers = dict([*self._last_numbers.items()][-MAX_DROPPED:])

    def _store(self, finding: Finding) -> None:
        """Put a finding into memory and append it to the file."""
        self._put(finding)
        with self.errors.watched(self._path):
            if self._unwritten:
                self._rewrite()
                return
            self._unwritten = True
            size = append_line(self._path, self._line(finding))
            self._unwritten = False
            if size > self._rewrite_at:
                self._rewrite_at = 2 * size  # if the disk is full, the rewrite is not tried again at every line
                self._rewrite()

    def _line(self, finding: Finding) -> bytes:
        values = {field.name: getattr(finding, field.name) for field in fields(finding)}
        return msgspec.json.encode({**values, "published": self._labels[finding.id]}) + b"\n"

    def _read(self) -> None:
        """Read the findings of earlier hubs and rewrite the file."""
        self._load()
        self._prune()
        self._rewrite()

    def _load(self) -> None:
        """Read the file, without lines that a crash cut off. Raises OSError; then nothing may replace the file."""
        try:
            lines = self._path.read_bytes().splitlines() if self._path.exists() else []
        except OSError as error:
            raise OSError(error.errno, f"what it has cannot be read ({error.strerror}) and is not replaced") from error
        later = dict(self._findings)
        for line in lines:
            try:
                if (dropped := msgspec.json.decode(line, type=_Dropped).last_numbers) is not None:
                    self._last_numbers |= dropped
                    continue
                finding = decode_finding(line)
                labels = msgspec.json.decode(line, type=_Line).published
            except msgspec.ValidationError:
                self._of_others.append(line)
            except msgspec.DecodeError:
                continue
            else:
                self._findings[finding.id] = finding
                self._labels.setdefault(finding.id, labels)
        self._findings |= later
        self._active = {f.id: f for f in self._findings.values() if f.resolved is None}
        if self._of_others:
            lines_of_others = counted(len(self._of_others), "line")
            log.warning("%s: %s of a newer zmon are kept, and not shown", self._path, lines_of_others)
        self._is_loaded = True

    def _rewrite(self) -> None:
        """Rewrite the file without outdated lines. Raises OSError, and then leaves the old file."""
        if not self._is_loaded:
            self._load()
        dropped = [msgspec.json.encode(_Dropped(self._last_numbers)) + b"\n"] if self._last_numbers else []
        of_others = [line + b"\n" for line in self._of_others[-MAX_RESOLVED:]]
        size = replace_file(self._path, (*of_others, *dropped, *map(self._line, self._findings.values())))
        self._rewrite_at = max(REWRITE_BYTES, 2 * size)
        self._unwritten = False


def _key(finding: Finding) -> tuple[object, ...]:
    """Return the parts of a finding whose change is worth a line in the file."""
    return finding.cause, finding.severity, finding.ranks, bool(finding.evidence_of(StallEvidence).victims)


def _without_bulk(finding: Finding) -> Finding:
    """Return the finding without the evidence that grows with the number of ranks."""
    return replace(finding, evidence=finding.evidence.without_bulk())


def _number(finding_id: str) -> int:
    """Return which occurrence of its fault a finding is about; 1 if another version gave it another kind of id."""
    number = finding_id.partition("-")[2]
    return int(number) if number.isdecimal() else 1


def _same_fault(finding: Finding, fault_id: str) -> bool:
    """Return True if the finding is about that fault. Its second occurrence has the id `<fault_id>-2`."""
    return finding.id.partition("-")[0] == fault_id
