"""The diagnosis of a stall, and how diagnoses of hangs, of the network and of an unknown cause read. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from zmon.detectors.hangs import flight_records
from zmon.detectors.network import NetworkCulprit, next_steps
from zmon.detectors.wording import ranks_on, ranks_text, verb
from zmon.schema.evidence import StallEvidence
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.names import LINK, SILENCE
from zmon.schema.rank import RankState

_SHOWN = 8  # ranks in a sentence
_OPPOSITE = {"send": "recv", "recv": "send"}  # what the peer must be in


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The cause, the culprits, and what to do next."""

    cause: str
    summary: str
    detail: str
    confidence: float
    culprits: Sequence[RankState] = ()
    hosts: Sequence[str] = ()
    proof: str = SILENCE  # why the job will not go on; by silence alone, it may
    evidence: StallEvidence = field(default_factory=StallEvidence)

    @property
    def proven(self) -> bool:
        """True if more than silence shows that the job will not go on."""
        return self.proof != SILENCE


def hang(culprits: Sequence[RankState], reason: str, confidence: float) -> Diagnosis | None:
    """Return the diagnosis of ranks that others wait for; None if there are none, or if only some of them load data.

    If some load data and others do not, either cause would be wrong for some of them.
    """
    loading = [r for r in culprits if _loads(r)]
    if not culprits or len(loading) not in (0, len(culprits)):
        return None
    return _input_stall(culprits, reason, confidence) if loading else _compute_hang(culprits, reason, confidence)


def _input_stall(culprits: Sequence[RankState], reason: str, confidence: float) -> Diagnosis:
    """Return the diagnosis of ranks that wait for their data loaders."""
    first = culprits[0]
    wait = verb(culprits, "has waited for its data loader", "have waited for their data loader")
    return Diagnosis(
        cause="input_stall",
        summary=f"{ranks_on(culprits)} {wait} for {_shortest_time(culprits)}; {reason}",
        detail=f"The stack of rank {first.rank} is in the finding. On {first.host}, check that the loader's workers "
        f"are alive (`ps --ppid {first.pid}`), and that the storage from which they read answers "
        f"(`cat /proc/{first.pid}/wchan`, `dmesg -T | tail`).",
        confidence=confidence,
        culprits=culprits,
    )


def _compute_hang(culprits: Sequence[RankState], reason: str, confidence: float) -> Diagnosis:
    """Return the diagnosis of ranks that are in no collective, or have finished, while others wait for them."""
    first = culprits[0]
    if all(r.activity == "done" for r in culprits):
        state = f"finished {_shortest_time(culprits)} ago"
    else:
        phases = list(dict.fromkeys(r.phase for r in culprits))
        phases_text = f"{verb(phases, 'phase', 'phases')} {', '.join(phases)}"
        state = f"been in no collective for {_shortest_time(culprits)} ({phases_text})"
    return Diagnosis(
        cause="compute_hang",
        summary=f"{ranks_on(culprits)} {verb(culprits, 'has', 'have')} {state}; {reason}",
        detail=f"The stack of rank {first.rank} is in the finding; or run `py-spy dump --native --pid {first.pid}` on "
        f"{first.host}. Look for a lock, a sleep, native code that does not return, or a rank that has left the "
        "training loop.",
        confidence=confidence,
        culprits=culprits,
    )


def hang_of_only_rank(snapshot: Snapshot, state: RankState) -> Diagnosis:
    """Return the diagnosis of a job with one rank: there is no other rank that could hold it up."""
    line = own_line(snapshot, state)
    if _loads(state):
        cause = "input_stall"
        activity = "waited for its data loader"
        advice = (
            f"Look at {line}. If it takes the next batch from workers, one of them hangs: `ps --ppid {state.pid} -o "
            "pid,stat,wchan:32,cmd`, then `py-spy dump --pid` of that one. Else the data set hangs, or the storage "
            "from which it reads."
        )
    else:
        place = state.in_flight.op if state.in_flight else f"phase {state.phase}"
        cause = "compute_hang"
        activity = f"been in {place}"
        advice = (
            f"Look at {line}: it waits for a lock, a timer, another process or a server, loops without end, or calls "
            "native code that does not return."
        )
    if state.device != "cpu":
        advice += " On a GPU, it may also wait for work that an earlier line issued."
    return Diagnosis(
        cause=cause,
        summary=f"{ranks_on([state])}, the only rank, has {activity} for {_shortest_time([state])}",
        detail=f"{advice} Its stack is in the finding; "
        f"or run `py-spy dump --native --pid {state.pid}` on {state.host}.",
        confidence=0.8,
        culprits=[state],
    )


def own_line(snapshot: Snapshot, state: RankState) -> str:
    """Return the innermost line of the job's own code in the stack of a rank, as far as it is known."""
    return snapshot.frames.get(state.rank, "the innermost line of your code in its stack")


def network_stall(culprit: NetworkCulprit) -> Diagnosis:
    """Return the diagnosis that all ranks wait because of the network of one host, or between hosts."""
    if len(culprit.hosts) == 1:
        device = culprit.device or "IFACE"
        advice = (
            f"On {culprit.hosts[0]}: `ip -s link`, `ss -tni state established`, `ethtool {device}`; then cable, switch "
            "port and the switch's own log."
        )
    else:
        advice = next_steps(culprit)
    return Diagnosis(
        cause="network_stall",
        summary=f"every rank is inside a collective, and {culprit.summary}",
        detail=f"{advice} TCP goes on by itself when packets pass again; RDMA does not.",
        confidence=culprit.confidence,
        hosts=culprit.hosts,
        proof=LINK,
        evidence=culprit.evidence,
    )


def unknown(snapshot: Snapshot, alive: list[RankState]) -> Diagnosis:
    """Return the diagnosis if no rule applies: which ranks are in no collective, have finished, or are awaited."""
    outside = [f"rank {r.rank} ({r.phase})" for r in alive if not r.in_flight]
    num_unseen = snapshot.num_missing
    if outside:
        clauses = [f"in no collective that zmon sees: {', '.join(outside[:_SHOWN])}"]
    else:
        clauses = [f"every rank{' that zmon sees' if num_unseen else ''} is inside {_ops(alive, num_unseen)}"]
    if num_unseen:
        clauses.append(f"they may wait for a rank that zmon does not see ({num_unseen} of {snapshot.world_size})")
    if done := [r for r in snapshot.ranks if r.activity == "done"]:
        clauses.append(f"{ranks_on(done)} {verb(done, 'has', 'have')} finished")
    if awaited := flight_records.awaited_ranks(snapshot):
        wait = verb(awaited, "itself waits", "wait themselves")
        clauses.append(f"the flight records show that the others wait for {ranks_on(awaited)}, which {wait}")
    advice = (
        "Look first at a rank that is in no collective while the others wait, unless it waits for an asynchronous one: "
        "`py-spy dump --pid PID`."
    )
    if alive and all(r.in_flight and r.in_flight.sequence == 1 for r in alive):
        advice = (
            "It is the first collective of its group. Can the hosts reach each other (a firewall, the interface in "
            "NCCL_SOCKET_IFNAME or GLOO_SOCKET_IFNAME)? With NCCL_DEBUG=INFO the log has the addresses."
        )
    return Diagnosis(
        cause="unknown",
        summary="; ".join(clauses),
        detail=("Look at the hosts of the ranks that zmon does not see as well. " if num_unseen else "")
        + f"`zmon status --json` has each rank's op, sequence and stack. {advice}",
        confidence=0.3,
    )


def _ops(ranks: Sequence[RankState], num_unseen: int) -> str:
    """Return what the ranks are inside: a collective, or sends and receives, each of which needs its opposite."""
    by_op: dict[str, list[int]] = {}
    for r in ranks:
        if r.in_flight:
            by_op.setdefault(r.in_flight.op, []).append(r.rank)
    if not by_op.keys() & _OPPOSITE.keys():
        return "a collective"
    if len(by_op) == 1:
        (op,) = by_op
        alone = f" and none inside `{_OPPOSITE[op]}`: a deadlock, unless they issued those before"
        return f"`{op}`{'' if num_unseen else alone}"
    return "a collective: " + ", ".join(f"{ranks_text(numbers[:_SHOWN])} in `{op}`" for op, numbers in by_op.items())


def _shortest_time(ranks: Sequence[RankState]) -> str:
    """Return the time for which all of these ranks have been in their phase."""
    return f"{min(r.state_seconds for r in ranks):.1f} s"


def _loads(state: RankState) -> bool:
    """Return True if the rank has waited for its loader for at least half of the time since its last step.

    A rank that has just begun to load may have hung elsewhere before.
    """
    return state.phase == "data" and state.activity != "done" and state.state_seconds >= state.step_seconds / 2
