"""The ends of a job's ranks, as the rules of `exits.py` judge them, and what all findings about them have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import msgspec

from zmon.detectors.endings.deaths import Dead, culprits, deaths, ended_ranks, ended_unclearly
from zmon.detectors.endings.memory import out_of_memory
from zmon.detectors.new_finding import new_finding
from zmon.detectors.endings.own_death import Death, began_seconds, gone_seconds
from zmon.format import counted, duration
from zmon.job.restarts import RESTART_GAP_SECONDS, launch_began
from zmon.schema.evidence import Evidence
from zmon.schema.finding import Finding
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.names import Severity
from zmon.schema.rank import RankState
from zmon.schema.thresholds import Share, Thresholds


@dataclass(frozen=True)
class Limits(Thresholds):
    """Thresholds in seconds of the part of the stall detector that judges ended ranks."""

    # The wait after a death before the dead ranks are compared. Peers die of a broken connection within 50 ms, and the
    # launcher ends the other ranks within 200 ms.
    settle_seconds: float = 0.5
    # The wait after a death that gloo may have caused while a living rank has not entered the same collective. By then
    # its agent has reported what it entered: agents look ten times a second, and a report is up to a second late.
    report_seconds: float = 1.5
    # Deaths closer together than this count as simultaneous, because the agent looks for dead ranks only every 0.1 s.
    together_seconds: float = 0.3
    # The time in which a launcher that has restarts left should have restarted the job. Until then the finding is a
    # warning, afterwards it is critical.
    restart_seconds: float = 30.0
    # The time that the processes of such a restart have to become ranks that are watched, during which the finding
    # stays a warning. They import torch first, which takes minutes from a slow file system. It is the shortest lease
    # that a start learns.
    start_seconds: float = 120.0
    # The silence of an agent after which its host counts as lost if all ranks on other hosts died of broken
    # connections.
    lost_seconds: float = 5.0
    # The wait for a culprit while some ranks have died of broken connections and others live. The launcher ends the
    # others within this time, and their last words then show what happened.
    rest_seconds: float = 5.0
    # No stall is reported for this long after a rank of a cancelled job has ended. torchrun gives its ranks 30 s before
    # it kills them.
    ending_seconds: float = 60.0
    # Last words on two hosts that differ by less than this count as simultaneous: reports travel for milliseconds, and
    # the shortest of these delays is unknown. A launcher reacts to a rank that raised later: Python takes 0.3 s to end.
    aligned_seconds: float = 0.02
    # An owner's signal reaches all ranks of a launcher within milliseconds, on a busy machine within 0.07 s. If one
    # rank has it this much earlier than all others, the signal may have been sent to that rank alone, and the launcher
    # ended the others afterwards: torchrun looks for dead ranks every 0.1 s.
    alone_seconds: float = 0.08
    # If one rank has the signal this much earlier than all others, on an idle machine, it may have been meant for that
    # rank alone. torchrun reacts within 0.1 s, and signals all ranks within 0.002 s.
    ahead_seconds: float = 0.02
    # If processes of a host waited for a core for at least this share of the last minute (PSI), the order in which its
    # ranks had a signal tells nothing.
    busy_ratio: Share = 0.3
    # A rank that ended by this much later than one that a signal ended did not have that signal: an owner's signal
    # reaches all ranks within 0.07 s, agents look every 0.1 s, and the ages of two hosts differ by up to 0.3 s.
    spared_seconds: float = 0.5
    # Ctrl-C counts as the reason of an end if it came within this time of the first broken connection. A rank that
    # closes its connections while it handles Ctrl-C leaves its last words after its victims.
    interrupt_seconds: float = 10.0
    # Two ranks notice the reset of the connection between them within this time (measured: 0 to 8 ms). Others lose
    # their connections only when one of the two processes has ended (0.5 s and more).
    pair_seconds: float = 0.1
    # A rank that leaves takes the others along only if they have made no step since this long before it left.
    left_seconds: float = 5.0
    # A launcher that supervises its ranks is reported as gone after this time. A job that ends as a whole ends within
    # it.
    launcher_seconds: float = 5.0
    # An operation whose sizes may differ must have had the same size on every rank in this many recent steps or more
    # before a size that differs counts as an error.
    num_even_steps: int = 10
    # If all reported ranks ended this long ago, ranks that are missing had ended before them. Agents remove the box of
    # a dead rank after 15 min, so the ranks of a job vanish one after the other.
    expiring_seconds: float = 600.0
    # A sequence of collectives is compared over this many recent steps or more, so that a shift is seen to last.
    num_lag_steps: int = 20
    # A rank's collectives are shifted if its bytes differ by whole steps, up to this part of a step, and if they differ
    # in no more than this part of its steps. Otherwise the rank does other work than the others.
    lag_ratio: float = 0.1


@dataclass(frozen=True)
class Ends:
    """The ends of the ranks of one job. A rank has ended if it is dead, or has raised and is about to end."""

    snapshot: Snapshot
    detector: str
    limits: Limits

    @cached_property
    def dead(self) -> list[Dead]:
        """Each rank that has ended, with the way in which it ended."""
        return deaths(self.snapshot.ranks)

    @cached_property
    def ended(self) -> list[RankState]:
        """The ranks that have ended."""
        return ended_ranks(self.snapshot.ranks)

    def of(self, *kinds: Death) -> list[RankState]:
        """Return the ranks that ended in one of these ways, the first to begin first."""
        return sorted((r for r, kind in self.dead if kind in kinds), key=began_seconds, reverse=True)

    @cached_property
    def culprits(self) -> list[RankState]:
        """The ranks that died first and of their own accord."""
        return [] if self.unclear else culprits(self.dead, self.limits.together_seconds)

    @cached_property
    def unclear(self) -> bool:
        """True if all ranks have ended, and nothing shows whether the owner ended them or whether they were killed."""
        if not self.complete or not ended_unclearly(self.dead, self.limits.together_seconds):
            return False
        return not any(out_of_memory(self.snapshot, state) for state in self.ended)

    @property
    def living(self) -> list[RankState]:
        """The watched ranks that have not ended."""
        ended = {r.rank for r in self.ended}
        return [r for r in self.snapshot.ranks if r.rank not in ended]

    @property
    def complete(self) -> bool:
        """True if every rank of the job is watched and has ended."""
        return not self.living and not self.snapshot.unwatched and not self.snapshot.missing

    @cached_property
    def seconds_ago(self) -> float:
        """The time since the first rank was seen dead; ranks that finished count only if no other rank has ended."""
        failed = [gone_seconds(r) for r, kind in self.dead if kind is not Death.FINISHED]
        return max(failed or [gone_seconds(r) for r, _ in self.dead], default=0.0)

    def finding(
        self,
        cause: str,
        summary: str,
        detail: str,
        confidence: float,
        culprits: Sequence[RankState] = (),
        hosts: Sequence[str] = (),
        severity: Severity | None = None,
        evidence: Evidence | None = None,
        outlook: str | None = None,
    ) -> Finding:
        """Return a finding about the end of the job.

        Severity and `outlook`, the last words of the summary, follow from the restarts that are left, unless given.
        """
        expected, next_start = restarts(self.ended, self.seconds_ago, self.limits)
        if expected == "critical" and (seconds := _seconds_until_supervised_start(self.snapshot)) is not None:
            started = f"something started it again {duration(seconds)} after its last end"
            next_start = f"no launcher will restart the job, but {started}"
        return new_finding(
            self.snapshot,
            detector=self.detector,
            cause=cause,
            severity=severity or expected,
            culprits=culprits,
            hosts=hosts,
            seconds_ago=self.seconds_ago,
            confidence=confidence,
            summary=f"{summary}; {outlook or next_start}",
            detail=detail,
            evidence=evidence or Evidence(),
        )


def restarts(gone: Sequence[RankState], seconds_ago: float, limits: Limits) -> tuple[Severity, str]:
    """Return the severity of the end of these ranks, and what their launcher will do."""
    state = gone[0]
    if state.max_restarts is None:
        return "critical", "nothing will restart the job"
    left = state.max_restarts - state.restart_count
    if left <= 0:
        total = state.max_restarts
        used = "its only restart" if total == 1 else f"all its {total} restarts"
        reason = f", because the launcher has used {used}" if total else ""
        return "critical", f"nothing will restart the job{reason}"
    starts = [r.relaunched_seconds for r in gone if r.relaunched_seconds is not None]
    if starts and min(starts) < limits.start_seconds:
        return "warning", f"the launcher started its processes again {duration(min(starts))} ago"
    severity: Severity = "warning" if seconds_ago < limits.restart_seconds else "critical"
    return severity, f"the launcher has {counted(left, 'restart')} left and may restart the job"


def _seconds_until_supervised_start(snapshot: Snapshot) -> float | None:
    """Return the time after which something other than a launcher started this launch; None if that is not known.

    A launcher that starts its ranks again counts the attempts, and a new launcher begins to count anew.
    """
    last = snapshot.earlier_ends[-1] if snapshot.earlier_ends else None
    if last is None or snapshot.attempt > last.attempt:
        return None
    seconds = max(0.0, launch_began(snapshot) - last.ended)
    return seconds if seconds <= RESTART_GAP_SECONDS else None


def outlook_of_gone(snapshot: Snapshot, limits: Limits) -> tuple[Severity, str]:
    """Return the severity of a proven stall, and the end of its summary.

    If a rank is gone or about to end, the others will fail too, and a launcher that has restarts left starts the job
    again.
    """
    gone = [r for r in snapshot.ranks if not r.alive or r.activity == "done"]
    if gone:
        seconds_ago = max(r.activity_seconds if r.alive else gone_seconds(r) for r in gone)
        severity, next_start = restarts(gone, seconds_ago, limits)
        if severity != "critical":
            return severity, f"; {next_start}"
    critical: Severity = "critical"
    return critical, ""


def with_first_words(evidence: Evidence, state: RankState) -> Evidence:
    """Return the evidence with the last words and the exit status of the rank that the finding is about."""
    return msgspec.structs.replace(evidence, last_words=state.last_words, exit_status=state.exit_status)
