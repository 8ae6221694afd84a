"""The detectors: each answers one question of an operator with a pure function of a Snapshot.

A detector is a file here or in the subpackage `slow`. The detector `stall` decides with the subpackages `endings`,
`hangs` and `network`. In a subpackage, `limits` has the thresholds and `rules` the rules in order. `suppression` says
which finding suppresses which. `new_finding` fills in a finding and `wording` writes parts of its sentences. `unread`
reports ranks that no snapshot has. CONTRIBUTING.md says how to add a detector.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from zmon.detectors.coverage import Coverage
from zmon.detectors.divergence import Divergence
from zmon.detectors.hardware import Hardware
from zmon.detectors.slow import EfficiencyLow, Imbalance, InputBound, Slowdown, Straggler
from zmon.detectors.stall import Stall
from zmon.schema import thresholds
from zmon.schema.finding import Finding
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.thresholds import Threshold, build, mapping, unknown


class Detector(Protocol):
    """A detector: its fields are its thresholds, and `detect` returns its findings about one Snapshot."""

    name: str  # as in the field `detector` of its findings
    separate: bool  # True: each finding about a job is a separate fault; False: a later finding updates the open one

    @property
    def causes(self) -> tuple[str, ...]:
        """All causes that its findings can have; each has a heading in docs/runbooks.md."""

    def can_resolve(self, snapshot: Snapshot, finding: Finding) -> bool:
        """Return True if the hub may resolve the finding once it is not reported any more; else it stays open."""

    def inert_reason(self, snapshot: Snapshot) -> str | None:
        """Return why the detector cannot judge this job, or None if it can."""

    def detect(self, snapshot: Snapshot) -> tuple[Finding, ...]:
        """Return the findings about one job; at most one, unless they are `separate`."""


_KEY = "detectors"  # the key of the hub's YAML under which a site sets thresholds
ALL: tuple[Detector, ...] = (
    Stall(),
    Straggler(),
    Imbalance(),
    Slowdown(),
    EfficiencyLow(),
    InputBound(),
    Divergence(),
    Coverage(),
    Hardware(),
)


def configured(settings: object) -> tuple[Detector, ...]:
    """Return ALL detectors with the thresholds that a site has set.

    `settings` maps the name of a detector to its thresholds. Raises UsageError, which names the dotted key.
    """
    by_name = mapping(settings, _KEY)
    names = [detector.name for detector in ALL]
    for name in by_name:
        if name not in names:
            raise unknown(f"{_KEY}.{name}", "detector", name, names)
    return tuple(build(detector, by_name.get(detector.name), f"{_KEY}.{detector.name}") for detector in ALL)


def changed(used: Iterable[Detector]) -> tuple[Threshold, ...]:
    """Return the thresholds that differ from their defaults."""
    return tuple(row for detector in used for row in thresholds.changed(detector, f"{_KEY}.{detector.name}"))
