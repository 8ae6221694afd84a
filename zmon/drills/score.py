"""Was it right, and how fast? Pure: rows of drills that were played in, verdicts and figures out."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from zmon.drills.targets import TARGETS

NOTHING = "nothing"  # the cause of a drill that nobody noticed
SAID = ("right", "wrong", "missed", "late")  # verdicts on what zmon said of a fault
FOUND = ("right", "late")


def alert_of(detector: str, severity: str) -> str:
    """The alert that tells of such a finding, by dashboards/rules/zmon.yaml."""
    if severity != "critical":
        return "ZmonFindingWarning"
    return "ZmonStall" if detector == "stall" else "ZmonFindingCritical"


@dataclass(frozen=True)
class DrillRow:
    """One drill, played once: what was done, and what zmon made of it. Seconds; None: unknown, or not applicable."""

    drill: str
    repeat: int
    seed: int
    kind: str
    ranks: int
    step_seconds: float
    job: str = ""  # its id
    time: float = 0.0  # unix seconds at the start
    stage: str = "host"
    quiet: bool = False
    proof: str = ""
    expected: tuple[str, ...] = ()
    rank: int | None = None  # who was struck
    host: str | None = None
    before: tuple[str, ...] = ()  # causes found before anything was done
    median_seconds: float | None = None  # of the job's own steps before
    p99_seconds: float | None = None
    told: str | None = None  # the cause that was found, or the alert
    detector: str = ""  # that found it
    severity: str | None = None
    culprit_right: bool = False
    told_ranks: tuple[int, ...] = ()
    told_hosts: tuple[str, ...] = ()
    evidence_missing: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()  # what else was found, by cause
    target_seconds: float | None = None
    finding_seconds: float | None = None  # onset → finding
    finding_steps: int | None = None  # that the job finished meanwhile, where steps are what proves it
    page_seconds: float | None = None  # finding → the page about it, however late; None: it never came
    resolved_seconds: float | None = None  # lifted → resolved
    lifted: bool = False
    paged: tuple[str, ...] = ()  # alerts that woke somebody, by name
    warned: tuple[str, ...] = ()  # and those that did not
    critical: tuple[str, ...] = ()  # a quiet drill's critical findings, by cause
    lost: str | None = None  # what was lost when a part died
    skipped: str | None = None  # why it could not be played here
    broken: str | None = None  # why the drill itself failed

    @property
    def verdict(self) -> str:
        """One of right, wrong, missed, late; quiet, false page, false warning; skipped, broken: not of zmon's doing."""
        if self.skipped or self.broken:
            return "skipped" if self.skipped else "broken"
        if self.quiet:
            return "false page" if self.paged or self.critical else "false warning" if self.warned else "quiet"
        if self.told is None:
            return "missed"
        if self.told not in self.expected or not self.culprit_right:
            return "wrong"
        return "late" if self._late else "right"

    @property
    def _late(self) -> bool:
        by_time = self.finding_seconds is not None and self.finding_seconds > (self.target_seconds or math.inf)
        by_steps = self.finding_steps is None or self.finding_steps > TARGETS.slow_steps
        return by_time and by_steps

    @property
    def remarks(self) -> tuple[str, ...]:
        """What else is not as it should be, in words."""
        said = [self.skipped, self.broken, self.lost]
        if self.quiet:
            said += [f"paged {name}" for name in self.paged] + [f"critical {cause}" for cause in self.critical]
            said += [f"warned {name}" for name in self.warned]
        elif self.verdict == "missed":
            said += [f"paged {name}" for name in self.paged]
        elif self.verdict in SAID:
            said += self._of_the_telling()
        return tuple(remark for remark in said if remark)

    def _of_the_telling(self) -> list[str]:
        said = [f"it was {self.expected[0]}, rank {self.rank} on {self.host}"] if self.verdict == "wrong" else []
        said += [f"{cause} was found before the fault" for cause in self.before]
        if self.evidence_missing:
            said.append(f"the evidence lacks {', '.join(self.evidence_missing)}")
        said += [f"{cause} was blamed beside it" for cause in self.beside]
        said += self._of_the_page()
        if self.lifted and (self.resolved_seconds is None or self.resolved_seconds > TARGETS.resolve_seconds):
            said.append("it did not resolve in time")
        return said

    def _of_the_page(self) -> list[str]:
        if self.proof == "watcher":  # where a part is dead, several alarms ring
            return [] if self.paged or self.warned else ["no page"]
        rang = self.paged if self.severity == "critical" else (*self.paged, *self.warned)
        if not rang:
            return ["no page"]
        said = [f"{len(rang)} alerts: {', '.join(rang)}"] if len(rang) > 1 else []
        if self.page_seconds is None or alert_of(self.detector, self.severity or "") not in rang:
            said.append(f"no page about it, but {', '.join(rang)}")
        elif self.page_seconds > TARGETS.page_seconds:
            said.append("the page was late")
        return said

    @property
    def as_expected(self) -> bool:
        """Whether nothing is left to wish for; what was skipped is not."""
        return self.verdict in ("right", "quiet") and not self.remarks


@dataclass(frozen=True)
class Spread:
    """Of one figure over the rows that have it."""

    p50: float
    p95: float
    max: float
    count: int


def spread(values: Sequence[float | None]) -> Spread | None:
    """Of the known ones, by the nearest rank; None where none is."""
    known = sorted(value for value in values if value is not None)
    if not known:
        return None

    def at(share: float) -> float:
        return known[max(0, math.ceil(share * len(known)) - 1)]

    return Spread(at(0.5), at(0.95), known[-1], len(known))


def confusion(rows: Sequence[DrillRow]) -> Counter[tuple[str, str]]:
    """How often a cause, the first of those expected, was told as which one."""
    return Counter((row.expected[0], row.told or NOTHING) for row in rows if row.verdict in SAID)


def verdicts(rows: Sequence[DrillRow]) -> Counter[str]:
    """How often each."""
    return Counter(row.verdict for row in rows)


def finding_spread(rows: Sequence[DrillRow], proof: str) -> Spread | None:
    """Onset → finding, of the faults proved so that were found."""
    return spread([row.finding_seconds for row in rows if row.proof == proof and row.verdict in FOUND])


def shortfalls(rows: Sequence[DrillRow]) -> tuple[str, ...]:
    """What they fall short of together, though each is as expected, in words."""
    state = finding_spread(rows, "state")
    if state is None or state.count < TARGETS.state_drills or state.p50 <= TARGETS.state_p50_seconds:
        return ()
    return (f"where a state proves it, half took longer than {TARGETS.state_p50_seconds:g} s: p50 {state.p50:.2f} s",)


def false_pages_per_hour(rows: Sequence[DrillRow], seconds: float) -> float | None:
    """Of quiet drills that took so long together; a critical finding is one. None where they took no time."""
    false = sum(max(len(row.paged), len(row.critical)) for row in rows if row.quiet)
    return false / (seconds / 3600) if seconds > 0 else None
