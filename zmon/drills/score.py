"""Was it right, and how fast? Pure: rows of drills that were played in, verdicts and figures out."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from zmon.drills.targets import TARGETS

NOTHING = "nothing"  # the cause of a drill that nobody noticed
SAID = ("right", "wrong", "missed", "late")  # verdicts on what zmon said of a fault


@dataclass(frozen=True)
class Row:
    """One drill, played once: what was done, and what zmon made of it. Seconds; None: unknown, or not applicable."""

    drill: str
    repeat: int
    seed: int
    kind: str
    ranks: int
    step_seconds: float
    time: float = 0.0  # unix seconds at the start
    stage: str = "host"
    quiet: bool = False
    proof: str = ""
    expected: tuple[str, ...] = ()
    rank: int | None = None  # who was struck
    host: str | None = None
    before: tuple[str, ...] = ()  # causes found before anything was done
    p99_seconds: float | None = None  # of the job's own steps before
    told: str | None = None  # the cause that was found, or the alert
    severity: str | None = None
    culprit_right: bool = False
    told_ranks: tuple[int, ...] = ()
    told_hosts: tuple[str, ...] = ()
    evidence_missing: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()  # what else was found
    target_seconds: float | None = None
    finding_seconds: float | None = None  # onset → finding
    page_seconds: float | None = None  # finding → page
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
        late = self.finding_seconds is not None and self.finding_seconds > (self.target_seconds or math.inf)
        return "late" if late else "right"

    @property
    def remarks(self) -> tuple[str, ...]:
        """What else is not as it should be, in words."""
        said = [self.skipped, self.broken, self.lost]
        if self.quiet:
            said += [f"paged {name}" for name in self.paged] + [f"critical {cause}" for cause in self.critical]
            said += [f"warned {name}" for name in self.warned]
        elif self.verdict in SAID and self.told is not None:
            said += self._of_the_telling()
        return tuple(remark for remark in said if remark)

    def _of_the_telling(self) -> list[str]:
        said = [f"{cause} was found before the fault" for cause in self.before]
        if self.evidence_missing:
            said.append(f"the evidence lacks {', '.join(self.evidence_missing)}")
        if self.proof != "watcher":  # where a part is dead, several alarms ring
            rang = self.paged if self.severity == "critical" else (*self.paged, *self.warned)
            if len(rang) != 1:
                said.append(f"{len(rang)} alerts: {', '.join(rang)}" if rang else "no alert")
            elif self.page_seconds is not None and self.page_seconds > TARGETS.page_seconds:
                said.append("the page was late")
        if self.lifted and (self.resolved_seconds is None or self.resolved_seconds > TARGETS.resolve_seconds):
            said.append("it did not resolve in time")
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


def confusion(rows: Sequence[Row]) -> Counter[tuple[str, str]]:
    """How often a cause, the first of those expected, was told as which one."""
    return Counter((row.expected[0], row.told or NOTHING) for row in rows if row.verdict in SAID)


def verdicts(rows: Sequence[Row]) -> Counter[str]:
    """How often each."""
    return Counter(row.verdict for row in rows)


def false_pages_per_hour(rows: Sequence[Row], seconds: float) -> float | None:
    """Of quiet drills that took so long together; None where they took no time."""
    return sum(len(row.paged) for row in rows if row.quiet) / (seconds / 3600) if seconds > 0 else None
