"""Report a job that has stopped moving, with the culprit.

Locks and process states come first, because they prove that a rank is gone or stopped. An exceeded lease proves only
that nothing moves. `parts/diagnosis.py` then infers the culprit from which ranks wait for which. If ranks have ended,
`parts/exits.py` says which of them is the culprit. What is proven is critical at once. What only silence shows may be a
pause, so `parts/silence.py` decides its severity.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

from zmon.detectors.hangs import different_paths, sequence_lag
from zmon.detectors.endings.crash_loop import LoopLimits, crash_loop_finding
from zmon.detectors.endings.deaths import ended_ranks
from zmon.detectors.hangs.diagnosis import diagnose, network_stall
from zmon.detectors.hangs.diagnosis_result import Diagnosis
from zmon.detectors.endings.ends import Limits, outlook_of_gone
from zmon.detectors.endings.exits import exit_finding
from zmon.detectors.hangs.finishing import finishing
from zmon.detectors.hangs.frames import places_text
from zmon.detectors.hangs.moving_faults import moving_fault
from zmon.detectors.network.network import cut_off_host
from zmon.detectors.new_finding import drain, new_finding
from zmon.detectors.hangs.overdue import overdue_ranks
from zmon.detectors.hangs.overlap import joined, overlap
from zmon.detectors.endings.own_death import Death, death, gone_seconds
from zmon.detectors.hangs.silence import Judgement, Patience, judge
from zmon.detectors.wording import ranks_on, ranks_text, verb
from zmon.job.lease import Leases
from zmon.job.restarts import is_over
from zmon.schema.evidence import Evidence
from zmon.schema.finding import Finding
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.names import STALL
from zmon.schema.rank import RankState


@dataclass(frozen=True)
class Stall(Patience, Limits, LoopLimits):
    """The detector `stall`; thresholds in seconds."""

    # A rank is frozen if its process has been stopped (state T or t) for this long. A tracer such as py-spy or gdb
    # stops a process only for some milliseconds.
    stopped_seconds: float = 0.3
    # A rank past its lease is frozen if its process has been in uninterruptible sleep (state D) for this long. A read
    # from a busy file system takes less.
    blocked_seconds: float = 1.0
    # The silence of an agent after which its host may count as lost. An agent that restarts answers again sooner.
    silent_seconds: float = 2.0
    # If other ranks still finish steps this long after an agent fell silent (or one lease after it, if that is longer),
    # its host is not lost.
    unseen_seconds: float = 5.0
    # A link that is down is reported if all ranks have been inside a collective for this long.
    cut_seconds: float = 1.0
    # Ranks in collectives that can never end are reported once all of them have been inside for this long. The agents
    # look at their ranks at different moments, up to a second apart.
    conflict_seconds: float = 2.0
    # Data between two hosts does not arrive if it timed out and was sent again this many times in a row, about 0.2, 0.6
    # and 1.4 s after it was sent. A single timeout may be a lost packet.
    num_timeouts: int = 2
    # The lease of a rank counts in the median lease of the training ranks once the rank has finished this many steps.
    num_learned_steps: int = Leases.learned_after_steps
    # Ranks that go on after all others have finished are reported after this time, as a warning. Their last upload or
    # report takes a while, and no rank waits for it.
    finishing_seconds: float = 60.0
    name = STALL
    separate = False
    causes = (
        "rank_exited",
        "uneven_end",
        "connection_lost",
        "rendezvous_failed",
        "launcher_gone",
        "sequence_lag",
        "crash_loop",
        "rank_frozen",
        "collective_mismatch",
        "host_lost",
        "lease_overrun",
        "input_stall",
        "compute_hang",
        "network_stall",
        "unknown",
    )

    def can_resolve(self, snapshot: Snapshot, finding: Finding) -> bool:
        """Return True while all ranks are watched, unless ranks have just ended, and it is not clear yet why.

        A shift of collectives lasts as long as its launch.
        """
        if finding.cause == "sequence_lag" and sequence_lag.lasts(snapshot, finding):
            return False
        ended = any(gone_seconds(r) < self.rest_seconds for r in ended_ranks(snapshot.ranks))
        return not snapshot.unwatched and not ended

    def inert_reason(self, snapshot: Snapshot) -> str | None:
        """Return a reason while no rank of the job is watched."""
        return None if snapshot.ranks else "no agent that answers reports a rank of it"

    def detect(self, snapshot: Snapshot) -> tuple[Finding, ...]:
        """Return what is proven (a rank exited, a rank is frozen, a link is down), else whether nothing moves."""
        finding = self._proven_finding(snapshot) or self._conflict_finding(snapshot)
        finding = finding or self._silence_finding(snapshot)
        loop = crash_loop_finding(snapshot, self.name, finding, self)
        if loop is not None and finding is not None and not is_over(snapshot):
            finding = joined(loop, finding)  # the launch after the failed ones has a fault of its own
        else:
            finding = loop or finding
        return tuple(filter(None, (finding, *moving_fault(snapshot, self.name, self))))

    def _proven_finding(self, snapshot: Snapshot) -> Finding | None:
        """Return one finding for all faults that locks, process states and links prove."""
        faults = [fault for fault in (self._exit_finding(snapshot), self._frozen_finding(snapshot)) if fault]
        culprits = {rank for fault in faults for rank in fault.ranks}
        if culprits:  # a rank that is gone or frozen is in no collective, so it says nothing about a link
            able = replace(snapshot, ranks=tuple(r for r in snapshot.ranks if r.alive and r.rank not in culprits))
            faults += filter(None, [self._link_finding(able)])
        elif not faults:
            faults += filter(None, [self._link_finding(snapshot)])
        return overlap(snapshot, faults) if faults else None

    def _exit_finding(self, snapshot: Snapshot) -> Finding | None:
        return exit_finding(snapshot, self.name, self)

    def _frozen_finding(self, snapshot: Snapshot) -> Finding | None:
        stopped = [r for r in snapshot.ranks if (r.stopped_seconds or 0.0) >= self.stopped_seconds]
        sleeping = [r for r in snapshot.ranks if (r.blocked_seconds or 0.0) >= self.blocked_seconds]
        blocked = [r for r in sleeping if r.overdue_seconds > 0]
        frozen = [r for r in stopped or blocked if r.activity != "done"]
        if not frozen:
            return None
        first = frozen[0]
        # A stopped process goes on only if somebody wakes it. Storage that is slow may answer at any moment.
        judgement = None if stopped else judge(snapshot, frozen, self)
        if stopped:
            seconds_ago = max(r.stopped_seconds or 0.0 for r in frozen)
            summary = f"process {first.pid} has been stopped (state {first.process_state}) for {seconds_ago:.1f} s"
            detail = (
                f"On {first.host}: `ps -o pid,stat,wchan:32,cmd -p {first.pid}`. If it was stopped by mistake or by a "
                f"debugger: `kill -CONT {first.pid}`. If it stops again, end the job and find out which process sends "
                "the signal."
            )
        else:
            seconds_ago = max(r.step_seconds for r in frozen)
            summary = f"process {first.pid} is in uninterruptible sleep (state D), no step for {seconds_ago:.1f} s"
            detail = (
                f"On {first.host}: `cat /proc/{first.pid}/wchan /proc/{first.pid}/stack; dmesg -T | tail -50`. It "
                "waits for storage or a driver. If that lasts longer than a minute, take the host out "
                f"({drain(first.host)}) and start the job elsewhere."
            )
        return new_finding(
            snapshot,
            detector=self.name,
            cause="rank_frozen",
            severity=judgement.severity if judgement else "critical",
            culprits=frozen,
            seconds_ago=seconds_ago,
            confidence=0.97 if stopped else 0.8,
            summary=f"{ranks_on(frozen)} froze at step {first.step} during {first.activity}: {summary}; "
            f"{_waiting_text(snapshot, frozen)}{places_text(snapshot, frozen)}{_reason_text(judgement)}",
            detail=detail,
            evidence=_with_silence(Evidence(pids=tuple(r.pid for r in frozen)), judgement),
        )

    def _link_finding(self, snapshot: Snapshot) -> Finding | None:
        """Return a finding if a link is down. The missing carrier is proof, so there is no need to wait for a lease."""
        seconds = self._inside_seconds(snapshot)
        culprit = cut_off_host(snapshot) if seconds >= self.cut_seconds else None
        return self._inside_finding(snapshot, network_stall(culprit), seconds) if culprit else None

    def _conflict_finding(self, snapshot: Snapshot) -> Finding | None:
        """Return a finding if all ranks wait in collectives that can never end, whatever leases they have.

        A rank that evaluates or saves has a long lease, but inside a collective it does neither.
        """
        seconds = self._inside_seconds(snapshot)
        if seconds < self.conflict_seconds or snapshot.missing or not all(r.alive for r in snapshot.ranks):
            return None
        diagnosis = different_paths.conflict(snapshot, self.num_even_steps)
        return self._inside_finding(snapshot, diagnosis, seconds) if diagnosis else None

    def _inside_seconds(self, snapshot: Snapshot) -> float:
        """Return for how long all living ranks have been inside collectives; 0 if they are not."""
        if snapshot.unwatched or any(r.in_flight is None for r in snapshot.ranks if _may_move(r)):
            return 0.0
        return min((r.state_seconds for r in snapshot.ranks if _may_move(r)), default=0.0)

    def _inside_finding(self, snapshot: Snapshot, diagnosis: Diagnosis, seconds: float) -> Finding:
        return new_finding(
            snapshot,
            detector=self.name,
            cause=diagnosis.cause,
            severity="critical",
            culprits=diagnosis.culprits,
            hosts=diagnosis.hosts,
            seconds_ago=seconds,
            confidence=diagnosis.confidence,
            summary=f"nothing has moved for {seconds:.1f} s; {diagnosis.summary}"
            f"{places_text(snapshot, diagnosis.culprits)}",
            detail=diagnosis.detail,
            evidence=diagnosis.evidence,
        )

    def _silence_finding(self, snapshot: Snapshot) -> Finding | None:
        alive = [r for r in snapshot.ranks if r.alive and r.activity != "done"]
        overdue = overdue_ranks(alive, self.num_learned_steps)
        if not overdue or len(overdue) < len(alive):
            return None  # a rank within its lease moves, or the others wait while it evaluates or saves
        if any(not r.alive and gone_seconds(r) < self.settle_seconds for r in snapshot.ranks):
            return None  # wait until it is clear which rank ended first, which is better evidence
        if any(r.alive and gone_seconds(r) < self.rest_seconds for r in ended_ranks(snapshot.ranks)):
            return None  # a rank has raised, and the other ranks are about to show why
        cancelled = [r for r in ended_ranks(snapshot.ranks) if death(r) is Death.CANCELLED]
        if any(gone_seconds(r) < self.ending_seconds for r in cancelled):
            return None  # the owner has cancelled the job, and its end takes a while
        silent = {a.host: a.silent_seconds for a in snapshot.agents}
        if any(silent.get(r.host, 0.0) < self.silent_seconds for r in snapshot.unwatched):
            return None  # wait until the silent agent answers again or its host counts as lost
        first = max(overdue, key=lambda r: r.overdue_seconds)
        diagnosis = diagnose(snapshot, self.unseen_seconds, self.num_timeouts, self.num_even_steps)
        alone = None if diagnosis.proven else finishing(snapshot, alive)
        if alone is not None and first.step_seconds < self.finishing_seconds:
            return None
        diagnosis = alone or diagnosis
        patience = replace(self, critical_seconds=self.critical_at_most_seconds) if alone else self
        # The locks of dead ranks prove that the job cannot go on.
        proven = diagnosis.proven or any(not r.alive and r.activity != "done" for r in snapshot.ranks)
        judgement = None if proven else judge(snapshot, _awaited(diagnosis, alive), patience)
        severity, outlook = outlook_of_gone(snapshot, self)
        return new_finding(
            snapshot,
            detector=self.name,
            cause=diagnosis.cause,
            severity=judgement.severity if judgement else severity,
            culprits=diagnosis.culprits,
            hosts=diagnosis.hosts,
            seconds_ago=first.step_seconds,
            confidence=diagnosis.confidence,
            summary=f"{_movers(snapshot)} has finished a step for {first.step_seconds:.1f} s, since step {first.step} "
            f"(lease {first.lease_seconds or 0.0:.1f} s); {diagnosis.summary}"
            f"{places_text(snapshot, diagnosis.culprits)}{_reason_text(judgement)}{outlook}",
            detail=diagnosis.detail,
            evidence=_with_silence(diagnosis.evidence, judgement),
        )


def _may_move(state: RankState) -> bool:
    return state.alive and state.activity != "done"


def _awaited(diagnosis: Diagnosis, alive: Sequence[RankState]) -> Sequence[RankState]:
    """Return the ranks whose place shows which pause this may be: the culprits, or else the ranks in no collective."""
    return diagnosis.culprits or [r for r in alive if r.in_flight is None] or alive


def _movers(snapshot: Snapshot) -> str:
    """Return who does not move; ranks that are gone cannot move."""
    gone = [r.rank for r in snapshot.ranks if not r.alive]
    return f"{ranks_text(gone)} {verb(gone, 'is', 'are')} gone, and no other rank" if gone else "no rank"


def _reason_text(judgement: Judgement | None) -> str:
    return f"; {judgement.reason}" if judgement else ""


def _with_silence(evidence: Evidence, judgement: Judgement | None) -> Evidence:
    return msgspec.structs.replace(evidence, silence=judgement.silence) if judgement else evidence


def _waiting_text(snapshot: Snapshot, frozen: list[RankState]) -> str:
    culprits = {r.rank for r in frozen}
    ops = [r.in_flight.op for r in snapshot.ranks if r.in_flight and r.rank not in culprits]
    if not ops:
        return "no rank waits for it yet"
    return f"{len(ops)} of {snapshot.world_size - len(frozen)} others wait in {', '.join(sorted(set(ops)))}"
