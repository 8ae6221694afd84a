"""Drop findings that another detector explains better, by one table for the hub and the offline analysis.

A fault is reported once, by the detector that knows most about it. Detectors do not know each other. The alert rule for
warnings in dashboards/rules/zmon.yaml also leaves out the warnings of a stalled job (docs/adr, number 42). Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from zmon.schema.finding import Finding
from zmon.schema.names import STALL

STEP_DETECTORS = ("straggler", "imbalance", "slowdown", "efficiency", "input_bound")


@dataclass(frozen=True)
class Suppression:
    """One row of the table: while `by` reports a finding above `info`, the `silenced` detectors open none.

    With `holds`, their open findings stay as they are. Without it, they resolve.
    """

    by: str
    silenced: tuple[str, ...]
    holds: bool = False


TABLE = (
    # During a stall, detectors of steps see only older steps, so they cannot tell whether a fault is over.
    Suppression(STALL, STEP_DETECTORS, holds=True),
    Suppression("straggler", ("slowdown", "efficiency")),  # the straggler is the culprit of the slowdown
    Suppression("imbalance", ("slowdown", "efficiency")),
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


def _silences(finding: Finding) -> bool:
    """Return True if the finding may explain others; a job that moves without its launcher explains none."""
    return finding.severity != "info" and (finding.detector != STALL or finding.is_stall)


def suppress(reported: Mapping[str, Sequence[Finding]], table: Sequence[Suppression] = TABLE) -> Remaining:
    """Return the findings that are left of all findings about the same Snapshot.

    A detector that is silenced still silences others. A detector that reports nothing is not in `held_open`: its open
    findings may be over.
    """
    reporting = {name for name, findings in reported.items() if any(_silences(f) for f in findings)}
    active = [row for row in table if row.by in reporting]
    silenced = {name for row in active for name in row.silenced if reported.get(name)}
    resolved = silenced & {name for row in active if not row.holds for name in row.silenced}
    left = {name: () if name in silenced else tuple(findings) for name, findings in reported.items()}
    return Remaining(left, frozenset(silenced - resolved), frozenset(resolved))
