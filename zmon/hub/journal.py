"""Findings from the first sight to the end: one fault is one finding, and a restart of the hub loses none.

Every change is a line in `findings.jsonl`; the last line of an id is what holds. What a later pass concludes about the
same trouble refines its text and evidence, while id, onset and the labels on the metric stay as published, so that one
fault is one alert. Only the severity may still rise. Other culprits than those published are taken up once they have
been named for some seconds. Of most detectors a job has one active finding at a time; of those whose faults are
separate, one a fault.

What is over is forgotten in time, the table of all ranks first: the hub lives for months, and the file is written anew
when it has grown.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass, fields, replace
from itertools import count
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec import UNSET

from zmon.schema.evidence import Evidence, FlightRow
from zmon.schema.finding import Finding
from zmon.schema.names import severity_order

log = logging.getLogger("zmon.journal")

RESOLVE_AFTER_SECONDS = 2.0  # a verdict that is gone for one pass may be a look at the wrong moment
HOLD_SECONDS = 3.0  # ranks that wait for each other look guilty by turns
KEPT_FINDINGS = 1000  # that are over
WHOLE_FINDINGS = 50  # of those, with a row for each rank though they have no capsule: 232 kB of JSON at 1,024 ranks
REWRITE_BYTES = 32 << 20  # of the file, if it was half of that when last written anew
_SINCE = "; of those that waited for it: "


@dataclass(frozen=True, slots=True)
class Labels:
    """What a finding's metric says of it, frozen when it was published."""

    cause: str
    ranks: tuple[int, ...]
    hosts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Line:
    published: Labels


class Journal:
    """All findings of this hub, on disk and in memory."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._findings: dict[str, Finding] = {}
        self._active: dict[str, Finding] = {}
        self._labels: dict[str, Labels] = {}
        self._clear_since: dict[str, float] = {}
        self._others: dict[str, tuple[tuple[int, ...], float, float]] = {}  # culprits not yet published: since, until
        self._rewrite_at = REWRITE_BYTES
        self.error: str | None = None  # why findings are not written down
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)  # what jobs say is theirs
            self._read()
            path.touch(mode=0o600)
        except OSError as error:
            self._complain(error)

    def active(self) -> list[Finding]:
        """What is wrong now."""
        return [*self._active.values()]

    def published(self) -> list[Finding]:
        """The active findings with the labels their alert was raised under."""
        return [replace(f, **asdict(self._labels[f.id])) for f in self.active()]

    def all(self) -> list[Finding]:
        """Every finding that is remembered, newest first."""
        return sorted(self._findings.values(), key=lambda f: f.detected, reverse=True)

    def conclude(self, finding: Finding, now: float, separate: bool = False) -> bool:
        """Take in a verdict; True where it is a new finding. `separate`: it refines none but that of its own id."""
        known = next(
            (f for f in self.of(finding.job_id, finding.detector) if not separate or _same(f, finding.id)), None
        )
        if known is None:
            earlier = sum(_same(f, finding.id) for f in self._findings.values())
            if earlier:
                again = (f"{finding.id}-{number}" for number in count(earlier + 1))
                finding = replace(finding, id=next(name for name in again if name not in self._findings))
            self._labels[finding.id] = Labels(finding.cause, finding.ranks, finding.hosts)
            self._keep(finding)
            return True
        self._clear_since.pop(known.id, None)
        refined = self._refined(known, finding, now)
        if _says(refined) != _says(known):
            self._keep(refined)
        else:
            self._remember(refined)
        return False

    def _refined(self, known: Finding, finding: Finding, now: float) -> Finding:
        """What is known, with a later verdict about the same trouble."""
        severity = max(known.severity, finding.severity, key=severity_order)
        held = self._held(known, finding.ranks, now)
        if finding.cause == "unknown" != known.cause:  # what was known once is not unlearned
            said = finding if severity != known.severity else known  # why it is worse now has to be read
            return replace(known, severity=severity, summary=said.summary, detail=said.detail)
        if _waited(known, finding):
            summary = known.summary.partition(_SINCE)[0] + _SINCE + finding.summary
            return replace(known, severity=severity, summary=summary)
        if severity == known.severity and not held:
            return known
        return replace(
            finding, id=known.id, onset=known.onset, detected=known.detected, severity=severity,
            evidence=known.evidence.updated(finding.evidence), capsule=known.capsule,
        )  # fmt: skip

    def _held(self, known: Finding, ranks: tuple[int, ...], now: float) -> bool:
        """Whether these are the published culprits, or the first, or have been named for long enough."""
        before, since, until = self._others.pop(known.id, (ranks, now, now))
        if not known.ranks or ranks == known.ranks:
            return True
        if before != ranks or now - until > HOLD_SECONDS:
            since = now
        self._others[known.id] = ranks, since, now
        return now - since >= HOLD_SECONDS

    def find(self, finding_id: str) -> Finding | None:
        """As it is now."""
        return self._findings.get(finding_id)

    def file(self, written: Finding) -> None:
        """It lies in `written.capsule`, as `written`: once it is over, its bulk lies nowhere else."""
        known = self._findings.get(written.id)
        if known is None:
            return
        filed = replace(known, capsule=written.capsule)
        if written.resolved is not None and written.evidence == known.evidence:
            filed = _light(filed)
        if filed != known:
            self._keep(filed)

    def attach(self, finding_id: str, evidence: Evidence) -> None:
        """Evidence that came in after the finding was published."""
        known = self._findings.get(finding_id)
        if known is not None and known.evidence.dropped is UNSET:
            self._keep(replace(known, evidence=known.evidence.updated(evidence)))

    def settle(self, job_id: str, detector: str, now: float, but: Collection[str] = ()) -> None:
        """The detector sees nothing wrong with the job any more, `but` these: resolve, once that lasts."""
        for known in self.of(job_id, detector):
            if known.id in but or any(_same(known, other) for other in but):
                self._clear_since.pop(known.id, None)
                continue
            if now - self._clear_since.setdefault(known.id, now) >= RESOLVE_AFTER_SECONDS:
                del self._clear_since[known.id]
                self._others.pop(known.id, None)
                self._keep(replace(known, resolved=now))

    def of(self, job_id: str, detector: str) -> list[Finding]:
        """What that detector finds wrong with the job now."""
        return [f for f in self._active.values() if (f.job_id, f.detector) == (job_id, detector)]

    def _remember(self, finding: Finding) -> None:
        self._findings[finding.id] = finding
        if finding.resolved is None:
            self._active[finding.id] = finding
        elif self._active.pop(finding.id, None) is not None:
            self._forget()

    def _forget(self) -> None:
        """Those that are over longest, and of those over long all but what is said of them."""
        over = sorted((f for f in self._findings.values() if f.resolved is not None), key=lambda f: -(f.resolved or 0))
        for finding in over[WHOLE_FINDINGS:KEPT_FINDINGS]:
            self._findings[finding.id] = _light(finding)
        for finding in over[KEPT_FINDINGS:]:
            del self._findings[finding.id], self._labels[finding.id]

    def _keep(self, finding: Finding) -> None:
        self._remember(finding)
        try:
            with _appending(self._path) as file:
                file.write(self._line(finding))
                size = file.tell()
            if size > self._rewrite_at:
                self._rewrite_at = 2 * size  # a disk that is full is not tried at every line
                self._rewrite()
        except OSError as error:
            self._complain(error)
        else:
            self.error = None

    def _complain(self, error: OSError) -> None:
        """A finding that cannot be written down is published all the same."""
        if self.error is None:
            log.warning(
                "cannot write %s: %s. Findings are published, and forgotten when the hub ends: make room there, or "
                "give it another --data-dir",
                self._path,
                error.strerror,
            )
        self.error = str(error)

    def _line(self, finding: Finding) -> bytes:
        told = {field.name: getattr(finding, field.name) for field in fields(finding)}
        return msgspec.json.encode({**told, "published": self._labels[finding.id]}) + b"\n"

    def _read(self) -> None:
        """Take up the findings of earlier runs and write the file anew.

        A line that a crash cut off is left out.
        """
        if not self._path.exists():
            return
        for line in self._path.read_bytes().splitlines():
            try:
                finding = msgspec.json.decode(line, type=Finding)
                self._labels[finding.id] = msgspec.json.decode(line, type=_Line).published
            except msgspec.DecodeError:
                continue
            self._findings[finding.id] = finding
        self._active = {f.id: f for f in self._findings.values() if f.resolved is None}
        self._forget()
        self._rewrite()

    def _rewrite(self) -> None:
        """Write the file anew without what has been superseded. Raises OSError, and leaves the one that is there."""
        partial = self._path.with_suffix(".partial")
        partial.unlink(missing_ok=True)
        try:
            with _appending(partial) as file:
                for finding in self._findings.values():
                    file.write(self._line(finding))
                self._rewrite_at = max(REWRITE_BYTES, 2 * file.tell())
            partial.replace(self._path)
        except OSError:
            partial.unlink(missing_ok=True)
            raise


@contextlib.contextmanager
def _appending(path: Path) -> Iterator[BinaryIO]:
    """The end of a file that is nobody else's to read; what was written is on the disk afterwards."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def _says(finding: Finding) -> tuple[object, ...]:
    """What is worth a line when it changes."""
    return finding.cause, finding.severity, finding.ranks, _SINCE in finding.summary


def _waited(known: Finding, finding: Finding) -> bool:
    """Whether all who went are processes that waited for the named culprits.

    NCCL's watchdog aborts them after ten minutes (ProcessGroupNCCL.cpp), which makes them no culprits.
    """
    if finding.cause != "rank_exited" or not known.ranks or set(finding.ranks) & set(known.ranks):
        return False
    gone = {row.rank: (row.host, row.pid) for row in finding.evidence.ranks or ()}
    flights, unknown = known.evidence.in_flight or {}, FlightRow()
    waiting = {
        row.rank: (row.host, row.pid)
        for row in known.evidence.ranks or ()
        if row.op or flights.get(str(row.rank), unknown).num_pending
    }
    return all(rank in waiting and waiting[rank] == gone.get(rank) for rank in finding.ranks)


def _light(finding: Finding) -> Finding:
    """Without what grows with the job."""
    return replace(finding, evidence=finding.evidence.without_bulk())


def _same(finding: Finding, verdict_id: str) -> bool:
    """Whether it is about that fault: the second time it is called <id>-2."""
    return finding.id.partition("-")[0] == verdict_id
