"""Findings from the first sight to the end: one fault is one finding, and a restart of the hub loses none.

Every change is a line in `findings.jsonl`; the last line of an id is what holds. What a
later pass concludes about the same trouble refines its text and evidence, while id, onset and the labels on the metric
stay as published, so that one fault is one alert. Only the severity may still rise. Of most detectors a job has one
active finding at a time; of those whose faults are separate, one a fault.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from zmon.records import Finding

log = logging.getLogger("zmon.journal")

RESOLVE_AFTER_SECONDS = 2.0  # a verdict that is gone for one pass may be a look at the wrong moment
KEPT_FINDINGS = 1000
_SEVERITIES = ("info", "warning", "critical")


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
        self._labels: dict[str, Labels] = {}
        self._clear_since: dict[str, float] = {}
        self.error: str | None = None  # why findings are not written down
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._read()
            path.touch()
        except OSError as error:
            self._complain(error)

    def active(self) -> list[Finding]:
        """What is wrong now."""
        return [f for f in self._findings.values() if f.resolved is None]

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
            finding = replace(finding, id=f"{finding.id}-{earlier + 1}") if earlier else finding
            self._labels[finding.id] = Labels(finding.cause, finding.ranks, finding.hosts)
            self._keep(finding)
            return True
        self._clear_since.pop(known.id, None)
        severity = max(known.severity, finding.severity, key=_SEVERITIES.index)
        if finding.cause == "unknown" != known.cause:  # what was known once is not unlearned
            said = finding if severity != known.severity else known  # why it is worse now has to be read
            refined = replace(known, severity=severity, summary=said.summary, detail=said.detail)
        else:
            evidence = {**known.evidence, **finding.evidence}
            refined = replace(
                finding, id=known.id, onset=known.onset, detected=known.detected, severity=severity, evidence=evidence,
                capsule=known.capsule,
            )  # fmt: skip
        if (refined.cause, refined.severity, refined.ranks) != (known.cause, known.severity, known.ranks):
            self._keep(refined)
        else:
            self._findings[known.id] = refined
        return False

    def find(self, finding_id: str) -> Finding | None:
        """As it is now."""
        return self._findings.get(finding_id)

    def file(self, finding_id: str, capsule: str) -> None:
        """Where all that is known of it lies."""
        known = self._findings.get(finding_id)
        if known is not None and known.capsule != capsule:
            self._keep(replace(known, capsule=capsule))

    def attach(self, finding_id: str, evidence: dict[str, Any]) -> None:
        """Evidence that came in after the finding was published."""
        known = self._findings.get(finding_id)
        if known is not None:
            self._keep(replace(known, evidence={**known.evidence, **evidence}))

    def settle(self, job_id: str, detector: str, now: float, but: Collection[str] = ()) -> None:
        """The detector sees nothing wrong with the job any more, `but` these: resolve, once that lasts."""
        for known in self.of(job_id, detector):
            if known.id in but or any(_same(known, other) for other in but):
                continue
            if now - self._clear_since.setdefault(known.id, now) >= RESOLVE_AFTER_SECONDS:
                del self._clear_since[known.id]
                self._keep(replace(known, resolved=now))

    def of(self, job_id: str, detector: str) -> list[Finding]:
        """What that detector finds wrong with the job now."""
        return [f for f in self.active() if (f.job_id, f.detector) == (job_id, detector)]

    def _keep(self, finding: Finding) -> None:
        self._findings[finding.id] = finding
        try:
            with self._path.open("ab") as file:
                file.write(self._line(finding))
                file.flush()
                os.fsync(file.fileno())
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
        return msgspec.json.encode({**asdict(finding), "published": self._labels[finding.id]}) + b"\n"

    def _read(self) -> None:
        """Take up the findings of earlier runs and write the file anew without what has been superseded.

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
        resolved = [f for f in self.all() if f.resolved is not None]
        for finding in resolved[KEPT_FINDINGS:]:
            del self._findings[finding.id]
        partial = self._path.with_suffix(".partial")
        partial.write_bytes(b"".join(self._line(f) for f in self._findings.values()))
        partial.replace(self._path)


def _same(finding: Finding, verdict_id: str) -> bool:
    """Whether it is about that fault: the second time it is called <id>-2."""
    return finding.id.partition("-")[0] == verdict_id
