"""Findings from the first sight to the end: one fault is one finding, and a restart of the hub loses none.

Every change is a line in `findings.jsonl`; the last line of an id is what holds. A job has at most one active finding a
detector: what a later pass concludes about the same trouble refines its text and evidence, while id, onset and
the labels on the metric stay as published, so that one fault is one alert. Only the severity may still rise.
"""

from __future__ import annotations

import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import msgspec

from zmon.records import Finding

RESOLVE_AFTER_SECONDS = 2.0  # a verdict that is gone for one pass may be a look at the wrong moment
KEPT_FINDINGS = 1000  # in memory, for the API
_SEVERITIES = ("info", "warning", "critical")


class Journal:
    """All findings of this hub, on disk and in memory."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._findings: dict[str, Finding] = _read(path)
        self._published: dict[str, Finding] = dict(self._findings)  # as the metric shows them
        self._last_seen: dict[str, float] = {}

    def active(self) -> list[Finding]:
        """What is wrong now."""
        return [f for f in self._findings.values() if f.resolved is None]

    def published(self) -> list[Finding]:
        """The active findings with the labels their alert was raised under."""
        return [self._published[f.id] for f in self.active()]

    def all(self) -> list[Finding]:
        """Every finding that is remembered, newest first."""
        return sorted(self._findings.values(), key=lambda f: f.detected, reverse=True)

    def conclude(self, finding: Finding, now: float) -> bool:
        """Take in a verdict; True where it is a new finding."""
        known = self._of(finding.job_id, finding.detector)
        if known is None:
            self._published[finding.id] = finding
            self._write(finding)
            self._last_seen[finding.id] = now
            return True
        self._last_seen[known.id] = now
        refined = replace(
            finding,
            id=known.id,
            onset=known.onset,
            detected=known.detected,
            severity=max(known.severity, finding.severity, key=_SEVERITIES.index),
            evidence={**known.evidence, **finding.evidence},
        )
        if refined.severity != known.severity:
            self._published[known.id] = replace(self._published[known.id], severity=refined.severity)
        changed = (refined.cause, refined.severity, refined.ranks) != (known.cause, known.severity, known.ranks)
        self._findings[known.id] = refined
        if changed:
            self._write(refined)
        return False

    def attach(self, finding_id: str, evidence: dict[str, Any]) -> None:
        """Evidence that came in after the finding was published."""
        known = self._findings.get(finding_id)
        if known is not None:
            self._write(replace(known, evidence={**known.evidence, **evidence}))

    def settle(self, job_id: str, detector: str, now: float) -> None:
        """The detector sees nothing wrong with the job any more: resolve, a little later."""
        known = self._of(job_id, detector)
        if known is not None and now - self._last_seen.setdefault(known.id, now) >= RESOLVE_AFTER_SECONDS:
            self._write(replace(known, resolved=now))
            self._forget_old()

    def _of(self, job_id: str, detector: str) -> Finding | None:
        return next((f for f in self.active() if (f.job_id, f.detector) == (job_id, detector)), None)

    def _write(self, finding: Finding) -> None:
        self._findings[finding.id] = finding
        with self._path.open("ab") as file:
            file.write(msgspec.json.encode(asdict(finding)) + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def _forget_old(self) -> None:
        resolved = [f for f in self.all() if f.resolved is not None]
        for finding in resolved[KEPT_FINDINGS:]:
            del self._findings[finding.id]
            self._published.pop(finding.id, None)


def _read(path: Path) -> dict[str, Finding]:
    """The findings of earlier runs; a line cut off by a crash is left out."""
    found: dict[str, Finding] = {}
    if path.exists():
        for line in path.read_bytes().splitlines():
            try:
                finding = msgspec.json.decode(line, type=Finding)
            except msgspec.DecodeError:
                continue
            found[finding.id] = finding
    return found
