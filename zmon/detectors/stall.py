"""Has the job stopped moving, and because of whom?

First what a lock or a process state proves (a rank gone, a rank stopped), then silence past the lease, which proves
only that nothing moves: why, is inferred from who waits for whom.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from zmon.detectors.parts.deaths import Death, death, ended, gone
from zmon.detectors.parts.exits import Limits, exited
from zmon.detectors.parts.network import cut_off
from zmon.detectors.parts.silence import blame, network_stall
from zmon.detectors.parts.verdict import drain, verdict
from zmon.detectors.parts.wording import ranks_on
from zmon.job.lease import Leases
from zmon.schema.evidence import Evidence
from zmon.schema.finding import Finding
from zmon.schema.names import STALL
from zmon.schema.rank import RankState
from zmon.schema.snapshot import Snapshot


@dataclass(frozen=True)
class Stall(Limits):
    """Thresholds in seconds."""

    stopped_seconds: float = 0.3  # a tracer (py-spy, gdb attaching) stops a process for some milliseconds
    blocked_seconds: float = 1.0  # in state D: a read from a busy file system is over by then
    silent_seconds: float = 2.0  # of an agent before its host counts as lost: one that restarts is back by then
    unseen_seconds: float = 5.0  # or a lease: steps that went on so long after an agent fell silent clear its host
    ending_seconds: float = 60.0  # of a job that was cancelled: torchrun gives its ranks 30 before it kills them
    cut_seconds: float = 1.0  # of all ranks inside a collective, while a link of the job is down
    num_learned_steps: int = Leases.learned_after_steps  # of a rank, before its lease of training counts for others
    name = STALL
    separate = False
    causes = (
        "rank_exited",
        "rank_frozen",
        "collective_mismatch",
        "host_lost",
        "lease_overrun",
        "input_stall",
        "compute_hang",
        "network_stall",
        "unknown",
    )

    def sees(self, snapshot: Snapshot, finding: Finding) -> bool:
        """While all ranks are watched."""
        return not snapshot.unwatched

    def inert(self, snapshot: Snapshot) -> str | None:
        """While nobody sees its ranks."""
        return None if snapshot.ranks else "no agent that answers sees a rank of it"

    def detect(self, snapshot: Snapshot) -> tuple[Finding, ...]:
        """The first of: a rank went, a rank is stopped, nothing moves."""
        found = self._exited(snapshot) or self._frozen(snapshot) or self._cut(snapshot) or self._silent(snapshot)
        return (found,) if found else ()

    def _exited(self, snapshot: Snapshot) -> Finding | None:
        return exited(snapshot, self.name, self)

    def _frozen(self, snapshot: Snapshot) -> Finding | None:
        stopped = [r for r in snapshot.ranks if (r.stopped_seconds or 0.0) >= self.stopped_seconds]
        slept = [r for r in snapshot.ranks if (r.blocked_seconds or 0.0) >= self.blocked_seconds]
        blocked = [r for r in slept if r.overdue_seconds > 0]
        frozen = [r for r in stopped or blocked if r.activity != "done"]
        if not frozen:
            return None
        first = frozen[0]
        if stopped:
            ago = max(r.stopped_seconds or 0.0 for r in frozen)
            summary = f"process {first.pid} is stopped (state {first.process_state}) for {ago:.1f} s"
            detail = (
                f"On {first.host}: `ps -o pid,stat,wchan:32,cmd -p {first.pid}`; if it was stopped by mistake or by a "
                f"debugger: `kill -CONT {first.pid}`. If it stops again, end the job and look at who signals it."
            )
        else:
            ago = max(r.step_seconds for r in frozen)
            summary = f"process {first.pid} is in uninterruptible sleep (state D), no step for {ago:.1f} s"
            detail = (
                f"On {first.host}: `cat /proc/{first.pid}/wchan /proc/{first.pid}/stack; dmesg -T | tail -50`. Storage "
                "or a driver holds it; if it does not come back within a minute, take the host out "
                f"({drain(first.host)}) and start the job elsewhere."
            )
        return verdict(
            snapshot,
            detector=self.name,
            cause="rank_frozen",
            severity="critical",
            culprits=frozen,
            seconds_ago=ago,
            confidence=0.97 if stopped else 0.8,
            summary=f"{ranks_on(frozen)} froze at step {first.step} during {first.activity}: {summary}; "
            f"{_waiting(snapshot, frozen)}",
            detail=detail,
            evidence=Evidence(pids=tuple(r.pid for r in frozen)),
        )

    def _cut(self, snapshot: Snapshot) -> Finding | None:
        """The carrier is proof: nobody has to wait for a lease."""
        alive = [r for r in snapshot.ranks if r.alive and r.activity != "done"]
        inside = [r.state_seconds for r in alive if r.in_flight]
        if not inside or len(inside) < len(alive) or snapshot.unwatched or min(inside) < self.cut_seconds:
            return None
        accused = cut_off(snapshot)
        if accused is None:
            return None
        found = network_stall(accused)
        return verdict(
            snapshot,
            detector=self.name,
            cause=found.cause,
            severity="critical",
            culprits=(),
            hosts=found.hosts,
            seconds_ago=min(inside),
            confidence=found.confidence,
            summary=f"nothing has moved for {min(inside):.1f} s; {found.says}",
            detail=found.detail,
            evidence=found.evidence,
        )

    def _silent(self, snapshot: Snapshot) -> Finding | None:
        alive = [r for r in snapshot.ranks if r.alive and r.activity != "done"]
        overdue = self._overdue(alive)
        if not overdue or len(overdue) < len(alive):
            return None  # somebody is within its lease: it moves, or evaluates or saves while the others wait for it
        if any(not r.alive and gone(r) < self.settle_seconds for r in snapshot.ranks):
            return None  # who went is known in a moment, and says more
        leaving = [r for r in ended(snapshot.ranks) if death(r) is Death.CANCELLED]
        if any(gone(r) < self.ending_seconds for r in leaving):
            return None  # its owner has ended it, and that takes a while
        silent = {a.host: a.silent_seconds for a in snapshot.agents}
        if any(silent.get(r.host, 0.0) < self.silent_seconds for r in snapshot.unwatched):
            return None  # an agent that just fell silent: what its ranks do will be known in a moment, or never
        first = max(overdue, key=lambda r: r.overdue_seconds)
        found = blame(snapshot, self.unseen_seconds)
        return verdict(
            snapshot,
            detector=self.name,
            cause=found.cause,
            severity="critical",
            culprits=found.culprits,
            hosts=found.hosts,
            seconds_ago=first.step_seconds,
            confidence=found.confidence,
            summary=f"no rank has finished a step for {first.step_seconds:.1f} s, since step {first.step} "
            f"(lease {first.lease_seconds or 0.0:.1f} s); {found.says}",
            detail=found.detail,
            evidence=found.evidence,
        )

    def _overdue(self, alive: Sequence[RankState]) -> list[RankState]:
        """Those past their lease. In training all take the same steps, so the middle lease is everybody's: the longest
        one of many ranks is that of the one with the oddest steps."""
        leases = [r.lease_seconds or 0.0 for r in alive if self._trains(r)]
        shared = median(leases) if leases else 0.0
        return [r for r in alive if r.overdue_seconds > 0 or (self._trains(r) and r.step_seconds > shared)]

    def _trains(self, state: RankState) -> bool:
        return state.activity == "train" and state.steps >= self.num_learned_steps


def _waiting(snapshot: Snapshot, frozen: list[RankState]) -> str:
    names = {r.rank for r in frozen}
    ops = [r.in_flight.op for r in snapshot.ranks if r.in_flight and r.rank not in names]
    if not ops:
        return "nobody waits for it yet"
    return f"{len(ops)} of {snapshot.world_size - len(frozen)} others wait in {', '.join(sorted(set(ops)))}"
