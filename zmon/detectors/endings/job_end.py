"""The end of a job, as the rules of `rules.py` judge it, and what all findings about it have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import msgspec

from zmon.detectors.endings.limits import EndLimits
from zmon.detectors.endings.memory import out_of_memory
from zmon.detectors.new_finding import new_finding
from zmon.format import counted, duration
from zmon.job.ends import End, ended_ranks, ends_of, first_to_end, is_end_unclear
from zmon.job.facts import began_to_end, gone_seconds
from zmon.job.rank_end import Way, left_with_launchers, way_of
from zmon.job.restarts import RESTART_GAP_SECONDS, launch_began
from zmon.schema.evidence import StallEvidence
from zmon.schema.finding import Finding
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.names import LOCK, STALL, Severity
from zmon.schema.rank import RankState


class Outlook(NamedTuple):
    """The severity of the end of ranks, and what their launcher will do, for the end of a summary."""

    severity: Severity
    text: str


@dataclass(frozen=True)
class JobEnd:
    """The end of a job: the ends of its ranks so far."""

    snapshot: Snapshot
    limits: EndLimits

    @cached_property
    def ends(self) -> list[End]:
        """The end of each rank that is dead, or that has raised and is about to end."""
        return ends_of(self.snapshot.ranks, self.snapshot.waiters)

    @cached_property
    def ended(self) -> list[RankState]:
        """The ranks that have ended. They take less time to find than `ends`, which has the way in which each ended."""
        return ended_ranks(self.snapshot.ranks)

    def ended_as(self, *ways: Way) -> list[RankState]:
        """Return the ranks that ended in one of these ways, the first to begin first."""
        ranks = [end.rank for end in self.ends if end.way in ways]
        return sorted(ranks, key=lambda r: began_to_end(r).latest)

    @cached_property
    def culprits(self) -> list[RankState]:
        """The ranks that ended first and by themselves."""
        return [] if self.is_unclear else first_to_end(self.ends)

    @cached_property
    def is_unclear(self) -> bool:
        """True if all ranks have ended, and nothing shows whether the owner ended them or whether they were killed."""
        if not self.is_complete or not is_end_unclear(self.ends):
            return False
        return not any(out_of_memory(self.snapshot, state) for state in self.ended)

    @property
    def living(self) -> list[RankState]:
        """The watched ranks that have not ended."""
        ended = {r.rank for r in self.ended}
        return [r for r in self.snapshot.ranks if r.rank not in ended]

    @property
    def is_complete(self) -> bool:
        """True if every rank of the job is watched and has ended."""
        return not self.living and not self.snapshot.unwatched and not self.snapshot.missing

    @cached_property
    def seconds_ago(self) -> float:
        """The time since the first rank was seen dead; ranks that finished count only if no other rank has ended."""
        failed = [gone_seconds(end.rank) for end in self.ends if end.way is not Way.FINISHED]
        return max(failed or map(gone_seconds, self.ended), default=0.0)

    def finding(
        self,
        cause: str,
        summary: str,
        detail: str,
        confidence: float,
        culprits: Sequence[RankState] = (),
        hosts: Sequence[str] = (),
        severity: Severity | None = None,
        evidence: StallEvidence | None = None,
        outlook: str | None = None,
    ) -> Finding:
        """Return a finding about the end of the job.

        Severity and `outlook`, the end of the summary, follow from the restarts that are left, unless given.
        """
        restart = restart_outlook(self.ended, self.seconds_ago, self.limits)
        next_start = restart.text
        if restart.severity == "critical" and (seconds := _seconds_until_supervised_start(self.snapshot)) is not None:
            started = f"something started it again {duration(seconds)} after its last end"
            next_start = f"no launcher will restart the job, but {started}"
        return new_finding(
            self.snapshot,
            detector=STALL,
            cause=cause,
            severity=severity or restart.severity,
            proof=LOCK,
            culprits=culprits,
            hosts=hosts,
            seconds_ago=self.seconds_ago,
            stalled=True,
            confidence=confidence,
            summary=f"{summary}; {outlook or next_start}",
            detail=detail,
            evidence=evidence or StallEvidence(),
        )


def restart_outlook(gone: Sequence[RankState], seconds_ago: float, limits: EndLimits) -> Outlook:
    """Return the outlook after the end of these ranks, the first of which was seen dead `seconds_ago`."""
    max_restarts, restart_count = gone[0].max_restarts, gone[0].restart_count
    if max_restarts is None:
        return Outlook("critical", "nothing will restart the job")
    left = max_restarts - restart_count
    if left <= 0:
        used = "its only restart" if max_restarts == 1 else f"all its {max_restarts} restarts"
        reason = f", because the launcher has used {used}" if max_restarts else ""
        return Outlook("critical", f"nothing will restart the job{reason}")
    if launchers_gave_up(gone):
        return Outlook("critical", "its launcher has ended and will not restart the job")
    starts_ago = [r.relaunched_seconds for r in gone if r.relaunched_seconds is not None]
    if starts_ago and min(starts_ago) < limits.start_seconds:
        return Outlook("warning", f"the launcher started its processes again {duration(min(starts_ago))} ago")
    text = f"the launcher has {counted(left, 'restart')} left and may restart the job"
    return Outlook("warning" if seconds_ago < limits.restart_seconds else "critical", text)


def launchers_gave_up(gone: Sequence[RankState]) -> bool:
    """Return True if the launchers of these ranks have ended with restarts left, as they do if they are signalled."""
    return all(
        r.launcher_gone_seconds is not None and r.max_restarts is not None and r.restart_count < r.max_restarts
        for r in gone
    )


def _seconds_until_supervised_start(snapshot: Snapshot) -> float | None:
    """Return the time after which something other than a launcher started this launch; None if that is not known.

    A launcher that starts its ranks again counts the attempts, and a new launcher begins to count anew.
    """
    last = snapshot.earlier_ends[-1] if snapshot.earlier_ends else None
    if last is None or snapshot.attempt > last.attempt:
        return None
    seconds = max(0.0, launch_began(snapshot) - last.ended)
    return seconds if seconds <= RESTART_GAP_SECONDS else None


def outlook_of_gone(snapshot: Snapshot, limits: EndLimits) -> Outlook:
    """Return the outlook of a proven stall, with an empty text if nothing will restart the job.

    If a rank is gone or about to end, the others will fail too, and a launcher that has restarts left starts the job
    again.
    """
    gone = [r for r in snapshot.ranks if not r.alive or r.activity == "done"]
    if gone:
        seconds_ago = max(r.activity_seconds if r.alive else gone_seconds(r) for r in gone)
        outlook = restart_outlook(gone, seconds_ago, limits)
        if outlook.severity != "critical":
            return outlook
    return Outlook("critical", "")


def with_last_words(evidence: StallEvidence, state: RankState) -> StallEvidence:
    """Return the evidence with the last words and the exit status of the rank that the finding is about."""
    return msgspec.structs.replace(evidence, last_words=state.last_words, exit_status=state.exit_status)


def are_unsettled(snapshot: Snapshot, limits: EndLimits) -> bool:
    """Return True while ranks are about to show how they ended, which is better evidence than that nothing moves."""
    ended = ended_ranks(snapshot.ranks)
    if any(not r.alive and gone_seconds(r) < limits.settle_seconds for r in snapshot.ranks):
        return True
    if any(r.alive and gone_seconds(r) < limits.rest_seconds for r in ended):
        return True  # a rank has raised, and the other ranks are about to show why
    # If the owner has cancelled the job, its end takes a while.
    cancelled = [gone_seconds(r) for r in ended if way_of(r) is Way.CANCELLED]
    cancelled += [r.activity_seconds for r in left_with_launchers(snapshot.ranks)]
    return any(seconds < limits.ending_seconds for seconds in cancelled)
