"""What is wrong, who is to blame? One operator's question per file; a detector is a pure function of a Snapshot.

To add one: a file, a line in ALL and among the modules that pyproject.toml holds apart, a test file, a runbook heading
for each cause.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from zmon.detectors.coverage import Coverage
from zmon.detectors.divergence import Divergence
from zmon.detectors.efficiency import EfficiencyLow
from zmon.detectors.hardware import Hardware
from zmon.detectors.imbalance import Imbalance
from zmon.detectors.input_bound import InputBound
from zmon.detectors.slowdown import Slowdown
from zmon.detectors.stall import Stall
from zmon.detectors.straggler import Straggler
from zmon.schema import thresholds
from zmon.schema.finding import Finding
from zmon.schema.snapshot import Snapshot
from zmon.schema.thresholds import Threshold, build, mapping, unknown


class Detector(Protocol):
    """Thresholds are its fields; `detect` says what it concludes from one Snapshot, if anything."""

    @property
    def name(self) -> str:
        """As in the finding."""

    @property
    def causes(self) -> tuple[str, ...]:
        """All it can conclude; each has a heading in docs/runbooks.md."""

    @property
    def separate(self) -> bool:
        """Whether what it concludes of one job are faults of their own: else a later one refines the one before."""

    def sees(self, snapshot: Snapshot, finding: Finding) -> bool:
        """Whether it would see the fault if it still were: else its silence resolves nothing."""

    def inert(self, snapshot: Snapshot) -> str | None:
        """Why it can say nothing about this job, whatever happens; None: it can."""

    def detect(self, snapshot: Snapshot) -> tuple[Finding, ...]:
        """The conclusions; none: nothing to say. At most one, unless they are `separate`."""


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


def configured(settings: object, key: str = "detectors") -> tuple[Detector, ...]:
    """ALL with the thresholds that a site has set, by detector. Raises UsageError, which names the dotted key."""
    given, names = mapping(settings, key), [detector.name for detector in ALL]
    for name in given:
        if name not in names:
            raise unknown(f"{key}.{name}", "detector", name, names)
    return tuple(build(detector, given.get(detector.name), f"{key}.{detector.name}") for detector in ALL)


def changed(used: Iterable[Detector], key: str = "detectors") -> tuple[Threshold, ...]:
    """The thresholds that a site has set to something else than their defaults."""
    return tuple(one for detector in used for one in thresholds.changed(detector, f"{key}.{detector.name}"))
