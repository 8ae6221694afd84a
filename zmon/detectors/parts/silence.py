"""No rank moves any more and all live: who is to blame for it, as far as that can be told?

What is left once no lock and no process state proves anything: inferences from who waits for whom, in this order. Where
that is not known the answer is `unknown`, with all there is as evidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from zmon.detectors.parts import recorded
from zmon.detectors.parts.deaths import hung
from zmon.detectors.parts.network import Accused, accused
from zmon.detectors.parts.verdict import drain
from zmon.detectors.parts.waiting import mismatch, waited_for
from zmon.detectors.parts.wording import numbers, ranks_on
from zmon.schema.evidence import Evidence
from zmon.schema.rank import RankState
from zmon.schema.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Blame:
    """Who, why, and what to do."""

    cause: str
    says: str
    detail: str
    confidence: float
    culprits: Sequence[RankState] = ()
    hosts: Sequence[str] = ()
    evidence: Evidence = field(default_factory=Evidence)


def blame(snapshot: Snapshot, unseen_seconds: float) -> Blame:
    """The first row that holds; `unknown` where none does. `unseen_seconds` are those of the stall detector."""
    alive = [r for r in snapshot.ranks if r.alive and r.activity != "done"]
    rows = (_mismatch, partial(_lost_host, unseen_seconds), _overrun, _unissued, _outside, _network)
    return next((found for row in rows if (found := row(snapshot, alive))), None) or _unknown(snapshot, alive)


def _mismatch(snapshot: Snapshot, alive: list[RankState]) -> Blame | None:
    found = mismatch(alive) or recorded.mismatch(snapshot)
    if found is None:
        return None
    names = ranks_on(found.minority) if found.minority else "no majority, so nobody is named"
    return Blame(
        cause="collective_mismatch" if found.minority else "unknown",
        says=f"ranks disagree about collective {found.sequence} of group {found.group}: {found.said} ({names})",
        detail="The ranks have taken different ways through the code; it never heals. The stacks in the finding show "
        "where: look for a branch on the rank, an uneven number of batches, an exception that was swallowed. End the "
        "job and start it from its last checkpoint.",
        confidence=0.9 if found.minority else 0.3,
        culprits=found.minority,
        evidence=Evidence(group=found.group, sequence=found.sequence),
    )


def _lost_host(unseen_seconds: float, snapshot: Snapshot, alive: list[RankState]) -> Blame | None:
    lost = [r for r in snapshot.unwatched if r.activity != "done"]
    if not lost or not any(r.in_flight for r in alive) or waited_for(alive):
        return None  # nobody waits, or somebody who is seen is behind
    hosts = sorted({r.host for r in lost})
    silent = max((a.silent_seconds for a in snapshot.agents if a.host in hosts), default=0.0)
    went_on = silent - min(r.step_seconds for r in alive)  # steps that its ranks had a part in, and nobody saw
    if went_on > max(unseen_seconds, *(r.lease_seconds or 0.0 for r in alive)):
        return None
    return Blame(
        cause="host_lost",
        says=f"{', '.join(hosts)} has not answered for {silent:.1f} s and the others wait for its {len(lost)} ranks",
        detail=f"Is the host up (`ping {hosts[0]}`, its console or BMC)? Take it out ({drain(hosts[0])}) and "
        "start the job elsewhere.",
        confidence=0.8,
        culprits=lost,
    )


def _overrun(snapshot: Snapshot, alive: list[RankState]) -> Blame | None:
    away = [r for r in alive if r.activity != "train" and not r.in_flight]
    if not away:
        return None
    first = max(away, key=lambda r: r.overdue_seconds)
    if snapshot.missing and len(away) == len(alive):
        never = numbers(snapshot.missing)
        return Blame(
            cause="lease_overrun",
            says=f"ranks {never} never came; all others are in {first.activity} for {first.activity_seconds:.1f} s "
            f"(lease {first.lease_seconds or 0.0:.0f} s)",
            detail=f"Did the launcher start ranks {never}, and on which host? The job's log has more. A host "
            "without an agent would look the same.",
            confidence=0.5,
            evidence=Evidence(missing=snapshot.missing),
        )
    return Blame(
        cause="lease_overrun",
        says=f"{ranks_on(away)} in {first.activity} for {first.activity_seconds:.1f} s "
        f"(lease {first.lease_seconds or 0.0:.0f} s), the others wait",
        detail=f"`zmon status --json` has its stack. In a checkpoint: is the storage there (on {first.host}: `df`, "
        f"`cat /proc/{first.pid}/wchan`)? In init: does it load data or compile, or wait for a rank that never came?",
        confidence=0.8,
        culprits=away,
    )


def _unissued(snapshot: Snapshot, alive: list[RankState]) -> Blame | None:
    if culprits := recorded.roots(snapshot):
        waiting = "by the flight records it has not issued what others wait in"
        return _hang(culprits, waiting, 0.8 if len(culprits) == 1 else 0.6)
    if culprits := recorded.behind_on_device(snapshot):
        return _hang(culprits, "by the flight records its GPU has not come to what the others' GPUs are in", 0.7)
    return None


def _outside(snapshot: Snapshot, alive: list[RankState]) -> Blame | None:
    if snapshot.missing or snapshot.unwatched:
        return None  # it may be one of those that nobody sees
    outlived = [r for r in hung(snapshot.ranks) if r.alive]
    if not outlived and any(r.device != "cpu" for r in alive):
        return None  # on a GPU the rank issues a collective and goes on: where it stands is not what hangs
    culprits = outlived or waited_for(alive)
    if not culprits and all(r.phase == "data" and not r.in_flight for r in alive):
        culprits = alive
    if any(r.rank in snapshot.flights and snapshot.flights[r.rank].num_pending for r in culprits):
        return None  # it waits itself, in a collective that C++ issued
    waiting = f"{sum(1 for r in alive if r.in_flight)} of {snapshot.world_size} ranks wait in a collective for it"
    if outlived:
        waiting = f"{len(snapshot.ranks) - len(alive)} of {snapshot.world_size} ranks are gone that waited for it"
    return _hang(culprits, waiting, 0.8)


def _hang(culprits: Sequence[RankState], waiting: str, confidence: float) -> Blame | None:
    """Of ranks that are waited for; None where some of them read and some compute, or there are none."""
    reading = [r for r in culprits if r.phase == "data" and r.activity != "done"]
    if not culprits or len(reading) not in (0, len(culprits)):
        return None
    first = culprits[0]
    if reading:
        return Blame(
            cause="input_stall",
            says=f"{ranks_on(culprits)} waits for its data loader since {first.state_seconds:.1f} s; {waiting}",
            detail=f"Its stack is in the finding. On {first.host}: do the loader's workers live (`ps --ppid "
            f"{first.pid}`), is the storage they read from there (`cat /proc/{first.pid}/wchan`, `dmesg -T | tail`)?",
            confidence=confidence,
            culprits=culprits,
        )
    where = "has finished" if first.activity == "done" else f"is in no collective, in {first.phase}"
    return Blame(
        cause="compute_hang",
        says=f"{ranks_on(culprits)} {where} since {first.state_seconds:.1f} s; {waiting}",
        detail=f"Its stack is in the finding, or `py-spy dump --native --pid {first.pid}` on {first.host}: a lock, a "
        "sleep, native code that does not return, or a rank that has left the training loop.",
        confidence=confidence,
        culprits=culprits,
    )


def _all_wait(snapshot: Snapshot, alive: list[RankState]) -> bool:
    return all(r.in_flight for r in alive) or recorded.all_wait(snapshot)


def _network(snapshot: Snapshot, alive: list[RankState]) -> Blame | None:
    if not alive or snapshot.missing or snapshot.unwatched or not _all_wait(snapshot, alive):
        return None
    found = accused(snapshot)
    return None if found is None else network_stall(found)


def network_stall(found: Accused) -> Blame:
    """Every rank waits, and the network of one host is why."""
    return Blame(
        cause="network_stall",
        says=f"every rank is inside a collective, and on {found.host} {found.says}",
        detail=f"On {found.host}: `ip -s link`, `ss -tni state established`, `ethtool {found.device or 'IFACE'}`; then "
        "cable, switch port and the switch's own log. TCP goes on by itself when the link is back; RDMA does not.",
        confidence=found.confidence,
        hosts=(found.host,),
        evidence=Evidence(device=found.device),
    )


def _unknown(snapshot: Snapshot, alive: list[RankState]) -> Blame:
    outside = [r for r in alive if not r.in_flight]
    through = [r for r in snapshot.ranks if r.activity == "done"]
    where = (
        "in no collective that zmon sees: " + ", ".join(f"rank {r.rank} ({r.phase})" for r in outside[:8])
        if outside
        else "every rank is inside a collective"
    )
    if through:
        where += f"; {ranks_on(through)} has finished"
    if awaited := recorded.awaited(snapshot):
        where += f"; by the flight records the others wait for {ranks_on(awaited)}, who wait themselves"
    return Blame(
        cause="unknown",
        says=where,
        detail="`zmon status --json` has each rank's op, sequence and stack; a rank in no collective while the "
        "others wait is the first to look at, unless it waits for an asynchronous one: `py-spy dump --pid PID`.",
        confidence=0.3,
    )
