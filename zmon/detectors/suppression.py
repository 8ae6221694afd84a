"""Drop findings that another detector explains better, by one table for the hub and the offline analysis.

A fault is reported once, by the detector that knows most about it. Detectors do not know each other. The alert rule for
warnings in dashboards/rules/zmon.yaml also leaves out the warnings of a stalled job (docs/adr, number 42). Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from zmon.detectors.slow import JITTER_CAUSES
from zmon.schema.finding import Finding
from zmon.schema.names import MOVING_CAUSES, STALL

STEP_DETECTORS = ("straggler", "imbalance", "slowdown", "efficiency", "input_bound")


@dataclass(frozen=True)
class Suppression:
    """One row of the table: while `by` reports a finding above `info`, the `silenced` detectors open none.

    With `holds`, their open findings stay as they are. Without it, they resolve. A row may be limited to findings of
    `by` with some causes, and to `silenced_causes`.
    """

    by: str
    silenced: tuple[str, ...]
    holds: bool = False
    causes: tuple[str, ...] = ()  # empty: all causes of `by` …
    except_causes: tuple[str, ...] = ()  # … but these
    silenced_causes: tuple[str, ...] = ()  # empty: all causes of the silenced detectors

    def is_active(self, reported: Mapping[str, Sequence[Finding]]) -> bool:
        """Return True if `by` reports such a finding."""
        causes = [finding.cause for finding in reported.get(self.by, ()) if finding.severity != "info"]
        return any((not self.causes or c in self.causes) and c not in self.except_causes for c in causes)

    def silences(self, detector: str, finding: Finding) -> bool:
        """Return True if an active row silences this finding."""
        return detector in self.silenced and (not self.silenced_causes or finding.cause in self.silenced_causes)


TABLE = (
    # During a stall, detectors of steps see only older steps, so they cannot tell whether a fault is over.
    Suppression(STALL, STEP_DETECTORS, holds=True, except_causes=MOVING_CAUSES),
    Suppression("straggler", ("slowdown", "efficiency")),  # the straggler is the culprit of the slowdown
    # The loss to a straggler is no loss to a slow rank that changes. Once the straggler is gone, the rest is measured.
    Suppression("straggler", ("imbalance",), silenced_causes=JITTER_CAUSES),
    Suppression("imbalance", ("efficiency",)),
    # A job that always lost time to a slow rank that changes may still become slower for another reason.
    Suppression("imbalance", ("slowdown",), except_causes=JITTER_CAUSES),
    Suppression("imbalance", ("slowdown",), causes=("input_jitter",), silenced_causes=("input",)),
    Suppression("slowdown", ("efficiency",)),  # `slowdown` reports which part of a step grew
    Suppression("divergence", ("efficiency",)),  # all work is lost, at any speed
    Suppression("coverage", ("efficiency",)),  # the efficiency of unwatched ranks is unknown
    Suppression("hardware", ("efficiency",)),  # the failing GPU or link is the reason
)


@dataclass(frozen=True)
class Remaining:
    """The findings about one job that are left, and the detectors that were silenced."""

    findings: Mapping[str, tuple[Finding, ...]]  # detector → findings; empty if it reports nothing or was silenced
    held_open: frozenset[str]  # silenced detectors whose open findings stay as they are
    resolved: frozenset[str]  # silenced detectors whose open findings resolve: another one reports the fault


def suppress(reported: Mapping[str, Sequence[Finding]], table: Sequence[Suppression] = TABLE) -> Remaining:
    """Return the findings that are left of all findings about the same Snapshot.

    A detector that is silenced still silences others. A detector that reports nothing is not in `held_open`: its open
    findings may be over.
    """
    active = [row for row in table if row.is_active(reported)]
    remaining: dict[str, tuple[Finding, ...]] = {}
    silenced, resolved = set[str](), set[str]()
    for name, findings in reported.items():
        silencing = [[row for row in active if row.silences(name, finding)] for finding in findings]  # by finding
        remaining[name] = tuple(finding for finding, rows in zip(findings, silencing, strict=True) if not rows)
        if any(silencing):
            silenced.add(name)
        if not all(row.holds for rows in silencing for row in rows):
            resolved.add(name)
    return Remaining(remaining, frozenset(silenced - resolved), frozenset(resolved))
