"""The row of a play: what zmon reported and when, and the result and the remarks that follow. Pure."""

from __future__ import annotations

import math

import msgspec

from lab.drills.acts import Blame, wrong_acts
from lab.drills.result import Result
from lab.drills.targets import TARGETS
from lab.drills.truth import TrueFault
from lab.stage import Shown
from zmon.schema.act import Intent
from zmon.schema.finding import Finding

FAULT_RESULTS: tuple[Result, ...] = ("right", "wrong", "missed", "late")
# The steps of the drills' jobs vary by 30 %, and each step of eight ranks loses a quarter to waiting for the slowest.
# That is no fault of a drill, and zmon is right to say so.
TRUE_OF_EVERY_JOB = "compute_jitter"


def counts(finding: Finding) -> bool:
    """Return True if the finding counts for the score."""
    return finding.severity != "info" and finding.cause != TRUE_OF_EVERY_JOB


def alert_of(detector: str, severity: str) -> str:
    """Return the alert of dashboards/rules/zmon.yaml that fires for such a finding."""
    if severity != "critical":
        return "ZmonFindingWarning"
    return "ZmonStall" if detector == "stall" else "ZmonFindingCritical"


class DrillRow(msgspec.Struct, frozen=True):
    """The outcome of one play of a drill: the reported cause and culprit, and the times of the reports.

    Times are in seconds. None means unknown or not applicable.
    """

    drill: str
    repeat: int
    seed: int
    kind: str
    ranks: int
    step_seconds: float
    job: str = ""  # ID of the job
    launcher: str = "torchrun"
    max_restarts: int = 0
    time: float = 0.0  # unix seconds at the start
    stage: str = "host"
    quiet: bool = False
    proof: str = ""
    expected: tuple[str, ...] = ()
    rank: int | None = None  # the struck rank
    host: str | None = None  # host of the struck rank
    before: tuple[str, ...] = ()  # causes of findings that were open before the fault
    median_seconds: float | None = None  # median step time before the fault
    p99_seconds: float | None = None  # p99 step time before the fault
    reported_cause: str | None = msgspec.field(default=None, name="told")  # cause of the finding, or name of the alert
    detector: str = ""  # detector of the finding
    severity: str | None = None
    culprit_right: bool = False
    reported_ranks: tuple[int, ...] = msgspec.field(default=(), name="told_ranks")
    reported_hosts: tuple[str, ...] = msgspec.field(default=(), name="told_hosts")
    struck_too: tuple[int, ...] = ()  # ranks that a second fault struck
    confidence: float | None = None  # of the finding
    evidence_missing: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()  # causes of other findings about the job
    target_seconds: float | None = None
    finding_seconds: float | None = None  # onset → finding
    finding_steps: int | None = None  # for proof `steps`: steps that the job finished from onset to finding
    # For proof `silence` and `lease`: onset → the finding is critical; None: it did not become critical.
    critical_seconds: float | None = None
    critical_target_seconds: float | None = None
    page_seconds: float | None = None  # finding (critical, see above) → page, also if late; None: no page came
    resolved_seconds: float | None = None  # lifted → resolved
    lifted: bool = False
    paged: tuple[str, ...] = ()  # names of critical alerts
    warned: tuple[str, ...] = ()  # names of other alerts
    critical: tuple[str, ...] = ()  # a quiet drill's critical findings, by cause
    lost: str | None = None  # data that was lost when a part of zmon died
    moves: bool | None = None  # at the end, before the fault was lifted, the job finished steps
    restarted: bool = False  # its launcher started the job again
    truth: tuple[TrueFault, ...] = ()  # what struck
    acts: tuple[Intent, ...] = ()  # what zmon did, oldest first
    again_seconds: float | None = None  # onset → the first step of another launch
    shown: tuple[Shown, ...] = ()  # of a random composition: every state in which a finding was published
    afterwards: tuple[Shown, ...] = ()  # the same, published after the drill had ended the job as its owner would
    skipped: str | None = None  # reason why the drill could not be played on this machine
    broken: str | None = None  # reason why the drill itself failed

    @property
    def result(self) -> Result:
        """The result of this play."""
        if self.skipped or self.broken:
            return "skipped" if self.skipped else "broken"
        if self.wrong_acts:
            return "wrong act"
        if self.quiet:
            if self.paged or self.critical:
                return "false page"
            return "false warning" if self.warned else "quiet"
        if self.reported_cause is None:
            return "missed"
        if self.reported_cause not in self.expected or not self.culprit_right:
            return "wrong"
        return "late" if self.is_late else "right"

    @property
    def wrong_acts(self) -> tuple[str, ...]:
        """A line for each act about somebody who is not to blame."""
        blames = [
            Blame(fault.time, frozenset() if fault.rank is None else frozenset((fault.rank,)))
            for fault in self.truth
            if fault.causes
        ]
        return wrong_acts(self.acts, blames)

    @property
    def is_late(self) -> bool:
        """True if the finding took longer than the target and, for proof `steps`, more steps than the target."""
        by_time = self.finding_seconds is not None and self.finding_seconds > (self.target_seconds or math.inf)
        by_steps = self.finding_steps is None or self.finding_steps > TARGETS.slow_steps
        return by_time and by_steps

    @property
    def remarks(self) -> tuple[str, ...]:
        """Descriptions of everything else that is not as expected."""
        remarks = [self.skipped, self.broken, self.lost, *self.wrong_acts]
        if self.quiet:
            remarks += [f"paged {name}" for name in self.paged] + [f"critical {cause}" for cause in self.critical]
            remarks += [f"warned {name}" for name in self.warned]
        elif self.result == "missed":
            remarks += [f"paged {name}" for name in self.paged]
        elif self.result in FAULT_RESULTS:
            remarks += self._finding_remarks()
        return tuple(remark for remark in remarks if remark)

    def _finding_remarks(self) -> list[str]:
        expected = f"expected {self.expected[0]}, rank {self.rank} on {self.host}"
        remarks = [expected] if self.result == "wrong" else []
        remarks += [f"{cause} was reported before the fault" for cause in self.before]
        if self.evidence_missing:
            remarks.append(f"the evidence lacks {', '.join(self.evidence_missing)}")
        if self.acts:  # the rank that was killed is reported as well, and no page is due any more
            return remarks
        remarks += [f"{cause} was reported as well" for cause in self.beside]
        remarks += self._critical_remarks()
        remarks += self._page_remarks()
        if self.lifted and (self.resolved_seconds is None or self.resolved_seconds > TARGETS.resolve_seconds):
            remarks.append("the finding did not resolve in time")
        return remarks

    def _critical_remarks(self) -> list[str]:
        if self.critical_target_seconds is None:  # other proofs, and rows of an older zmon
            return []
        if self.critical_seconds is None:
            return ["it did not become critical"]
        return ["it became critical late"] if self.critical_seconds > self.critical_target_seconds else []

    def _page_remarks(self) -> list[str]:
        if self.stage == "watch":  # it sends no pages
            return []
        if self.proof == "watcher":  # several alerts may fire when a part is dead
            return [] if self.paged or self.warned else ["no page"]
        fired = self.paged if self.severity == "critical" else (*self.paged, *self.warned)
        if not fired:
            return ["no page"]
        remarks = [f"{len(fired)} alerts: {', '.join(fired)}"] if len(fired) > 1 else []
        if self.page_seconds is None or alert_of(self.detector, self.severity or "") not in fired:
            remarks.append(f"no page about the finding, but {', '.join(fired)}")
        elif self.page_seconds > TARGETS.page_seconds:
            remarks.append("the page was late")
        return remarks

    @property
    def as_expected(self) -> bool:
        """True if the result is right or quiet and there are no remarks. Skipped drills are never as expected."""
        return self.result in ("right", "quiet") and not self.remarks
