"""Report a job that has stopped moving, with the culprit.

Locks and process states come first, because they prove that a rank is gone or stopped. An exceeded lease proves only
that nothing moves. The rules about ranks that have ended are in `endings/`, the others in `hangs/`. What is proven is
critical at once. What only silence shows may be a pause, so its severity follows from the time (`hangs/silence.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from zmon.detectors import endings, hangs
from zmon.job.ends import ended_ranks
from zmon.job.facts import gone_seconds
from zmon.job.merging import combined, joined
from zmon.job.restarts import is_over
from zmon.schema.finding import Finding
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.names import STALL
from zmon.schema.rank import RankState


@dataclass(frozen=True)
class Stall(hangs.HangLimits, endings.EndLimits):
    """The detector `stall`; its thresholds are those of the two subpackages."""

    name = STALL
    separate = False
    causes = (
        "rank_exited", "uneven_end", "connection_lost", "rendezvous_failed", "launcher_gone", "sequence_lag",
        "crash_loop", "rank_frozen", "collective_mismatch", "host_lost", "lease_overrun", "input_stall", "compute_hang",
        "network_stall", "unknown",
    )  # fmt: skip

    def can_resolve(self, snapshot: Snapshot, finding: Finding) -> bool:
        """Return True while all ranks are watched, unless ranks have just ended, and it is not clear yet why.

        A shift of collectives lasts as long as its launch.
        """
        if finding.cause == "sequence_lag" and hangs.lag_lasts(snapshot, finding):
            return False
        ended = any(gone_seconds(r) < self.rest_seconds for r in ended_ranks(snapshot.ranks))
        return not snapshot.unwatched and not ended

    def inert_reason(self, snapshot: Snapshot) -> str | None:
        """Return a reason while no rank of the job is watched."""
        return None if snapshot.ranks else "no agent that answers reports a rank of it"

    def detect(self, snapshot: Snapshot) -> tuple[Finding, ...]:
        """Return a finding about a job that stands still or has ended, and one about a fault of a job that moves."""
        fault = self._proven(snapshot) or hangs.conflict_finding(snapshot, self) or self._silence(snapshot)
        fault = fault or hangs.exit_hang(snapshot, self)
        loop = endings.crash_loop_finding(snapshot, fault, self)
        if loop is not None and fault is not None and not is_over(snapshot):
            fault = joined(loop, fault)  # the launch after the failed ones has a fault of its own
        else:
            fault = loop or fault
        fault_of_moving_job = endings.launcher_gone(snapshot, self) or hangs.lag_finding(snapshot, self)
        return tuple(filter(None, (fault, fault_of_moving_job)))

    def stands_still(self, snapshot: Snapshot) -> bool:
        """Return True if no rank has moved for a good part of its lease, so that evidence is worth its cost."""
        return hangs.stands_still(hangs.as_judged(snapshot), self) or bool(hangs.exiting_ranks(snapshot, self))

    def ranks_to_look_at(self, snapshot: Snapshot) -> Sequence[RankState]:
        """Return the ranks whose stacks and work tell a pause from a hang, while nothing moves."""
        return hangs.ranks_to_look_at(hangs.as_judged(snapshot), self) or hangs.exiting_ranks(snapshot, self)

    def _proven(self, snapshot: Snapshot) -> Finding | None:
        """Return one finding for all faults that locks, process states and links prove."""
        faults = [*filter(None, (endings.exit_finding(snapshot, self), hangs.frozen_finding(snapshot, self)))]
        culprits = {rank for fault in faults for rank in fault.ranks}
        job = snapshot
        if culprits:  # a rank that is gone or frozen is in no collective, so it says nothing about a link
            job = replace(snapshot, ranks=tuple(r for r in snapshot.ranks if r.alive and r.rank not in culprits))
        if culprits or not faults:
            faults += filter(None, [hangs.link_finding(job, self)])
        return combined(snapshot, faults) if faults else None

    def _silence(self, snapshot: Snapshot) -> Finding | None:
        """Return a finding if nothing moves, and no end of a rank is about to show why."""
        job = hangs.as_judged(snapshot)
        is_hang = hangs.is_overdue(job) or hangs.is_shown_early(job, self)
        if not is_hang or endings.are_unsettled(snapshot, self):
            return None
        severity, next_start = endings.outlook_of_gone(snapshot, self)
        return hangs.silence_finding(snapshot, job, self, severity, next_start)
