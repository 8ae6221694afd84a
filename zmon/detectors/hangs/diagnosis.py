"""The diagnosis of a stall, and how diagnoses of hangs, of the network and of an unknown cause read. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from zmon.detectors.hangs import flight_records
from zmon.detectors.network import NetworkCulprit, next_steps
from zmon.detectors.wording import ranks_on, verb
from zmon.schema.evidence import StallEvidence
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.rank import RankState


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The cause, the culprits, and what to do next."""

    cause: str
    summary: str
    detail: str
    confidence: float
    culprits: Sequence[RankState] = ()
    hosts: Sequence[str] = ()
    proven: bool = False  # False: only silence shows that the job will not go on
    evidence: StallEvidence = field(default_factory=StallEvidence)


def hang(culprits: Sequence[RankState], reason: str, confidence: float) -> Diagnosis | None:
    """Return the diagnosis of ranks that others wait for; None if there are none, or if only some of them load data."""
    loading = [r for r in culprits if _loads(r)]
    if not culprits or len(loading) not in (0, len(culprits)):
        return None
    first = culprits[0]
    if loading:
        loads = verb(culprits, "has waited for its", "have waited for their")
        return Diagnosis(
            cause="input_stall",
            summary=f"{ranks_on(culprits)} {loads} data loader for {first.state_seconds:.1f} s; {reason}",
            detail=f"The stack of rank {first.rank} is in the finding. On {first.host}, check that the loader's "
            f"workers are alive (`ps --ppid {first.pid}`) and that the storage they read from answers "
            f"(`cat /proc/{first.pid}/wchan`, `dmesg -T | tail`).",
            confidence=confidence,
            culprits=culprits,
        )
    seconds = f"{first.state_seconds:.1f} s"
    if first.activity == "done":
        state = f"finished, {seconds} ago"
    else:
        state = f"been in no collective for {seconds} (phase {first.phase})"
    return Diagnosis(
        cause="compute_hang",
        summary=f"{ranks_on(culprits)} {verb(culprits, 'has', 'have')} {state}; {reason}",
        detail=f"The stack of rank {first.rank} is in the finding, or run `py-spy dump --native --pid {first.pid}` on "
        f"{first.host}: a lock, a sleep, native code that does not return, or a rank that has left the training loop.",
        confidence=confidence,
        culprits=culprits,
    )


def hang_of_only_rank(snapshot: Snapshot, state: RankState) -> Diagnosis:
    """Return the diagnosis of a job with one rank: there is no other rank that could hold it up."""
    line, loads, seconds = own_line(snapshot, state), _loads(state), f"{state.state_seconds:.1f} s"
    if loads:
        does = f"waited for its data loader for {seconds}"
        steps = (
            f"Look at {line}. If it takes the next batch from workers, one of them hangs: `ps --ppid {state.pid} -o "
            "pid,stat,wchan:32,cmd`, then `py-spy dump --pid` of that one. Else the data set hangs, or the storage "
            "from which it reads."
        )
    else:
        does = f"been in {state.in_flight.op if state.in_flight else f'phase {state.phase}'} for {seconds}"
        steps = (
            f"Look at {line}: it waits for a lock, a timer, another process or a server, loops without end, or calls "
            "native code that does not return."
        )
    if state.device != "cpu":
        steps += " On a GPU, it may also wait for work that an earlier line issued."
    return Diagnosis(
        cause="input_stall" if loads else "compute_hang",
        summary=f"{ranks_on([state])}, the only rank, has {does}",
        detail=f"{steps} Its stack is in the finding; or run `py-spy dump --native --pid {state.pid}` on {state.host}.",
        confidence=0.8,
        culprits=[state],
    )


def own_line(snapshot: Snapshot, state: RankState) -> str:
    """Return the innermost line of the job's own code in the stack of a rank, as far as it is known."""
    return snapshot.frames.get(state.rank, "the innermost line of your code in its stack")


def network_stall(culprit: NetworkCulprit) -> Diagnosis:
    """Return the diagnosis that all ranks wait because of the network of one host, or between hosts."""
    device = culprit.device or "IFACE"
    detail = (
        f"On {culprit.hosts[0]}: `ip -s link`, `ss -tni state established`, `ethtool {device}`; then cable, switch "
        "port and the switch's own log."
        if len(culprit.hosts) == 1
        else next_steps(culprit)
    )
    return Diagnosis(
        cause="network_stall",
        summary=f"every rank is inside a collective, and {culprit.summary}",
        detail=f"{detail} TCP goes on by itself when packets pass again; RDMA does not.",
        confidence=culprit.confidence,
        hosts=culprit.hosts,
        proven=True,
        evidence=culprit.evidence,
    )


def unknown(snapshot: Snapshot, alive: list[RankState]) -> Diagnosis:
    outside = [r for r in alive if not r.in_flight]
    unseen = len(snapshot.missing)
    all_inside = "every rank that zmon sees is inside a collective" if unseen else "every rank is inside a collective"
    done = [r for r in snapshot.ranks if r.activity == "done"]
    summary = (
        "in no collective that zmon sees: " + ", ".join(f"rank {r.rank} ({r.phase})" for r in outside[:8])
        if outside
        else all_inside
    )
    if unseen:
        summary += f"; they may wait for a rank that zmon does not see ({unseen} of {snapshot.world_size})"
    if done:
        summary += f"; {ranks_on(done)} {verb(done, 'has', 'have')} finished"
    if awaited := flight_records.awaited_ranks(snapshot):
        wait = verb(awaited, "itself waits", "wait themselves")
        summary += f"; the flight records show that the others wait for {ranks_on(awaited)}, which {wait}"
    return Diagnosis(
        cause="unknown",
        summary=summary,
        detail=("Look at the hosts of the ranks that zmon does not see as well. " if unseen else "")
        + "`zmon status --json` has each rank's op, sequence and stack. Look first at a rank that is in no "
        "collective while the others wait, unless it waits for an asynchronous one: `py-spy dump --pid PID`.",
        confidence=0.3,
    )


def _loads(state: RankState) -> bool:
    """Return True if the rank has waited for its loader for most of the stall, and not only since a hang has ended."""
    return state.phase == "data" and state.activity != "done" and state.state_seconds >= state.step_seconds / 2
