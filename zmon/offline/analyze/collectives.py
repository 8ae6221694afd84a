"""Finds the collective that is stuck, and the ranks that caused it, in the flight records of a job that stood still.

The rules are those of the hub (zmon/detectors/hangs/flight_records.py). Sizes and kinds are compared over all recorded
operations, not only over those in flight: a mismatch may have ended them. Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from zmon.detectors.collectives import SAME_SIZE_ON_GPUS, Contribution, Mismatch, first_mismatch
from zmon.detectors.hangs import behind_on_device, root_ranks
from zmon.detectors.new_finding import new_finding
from zmon.detectors.wording import ranks_text, verb
from zmon.job.flight import op_of, pending_collective
from zmon.offline.analyze.formats.flight_recorder import RankDump, StoredEntry
from zmon.offline.analyze.rows import rank_state
from zmon.schema.evidence import StallEvidence
from zmon.schema.finding import Finding
from zmon.schema.flight import FlightRecord, PendingCollective
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.names import DEFAULT_GROUP, SEQUENCE, STALL
from zmon.schema.rank import RankState

_UNCOUNTED = ("send", "recv", "coalesced")  # operations without a collective sequence number of their own
_MAX_SHAPES = 8  # a line of a terminal or a log
_NOT_ISSUED = (
    "A rank that has not issued it was in no collective: it computed, loaded data, hung, or took another path through "
    "the code. Its stack or its log has the reason: the records show where it was last."
)
_NOT_REACHED = (
    "A GPU that has not reached it still works at what was issued before, or has failed. Look at the kernel log of its "
    "host for Xid errors, and at the stack of its rank."
)
_stall = partial(new_finding, detector=STALL, proof=SEQUENCE, seconds_ago=0.0)


@dataclass(frozen=True)
class Pending:
    """A collective that one rank has issued and that is not done."""

    rank: int
    collective: PendingCollective
    where: str  # the line of the job that issued it; empty if it is unknown


@dataclass(frozen=True)
class FlightAnalysis:
    """The conclusion from the flight records of one job."""

    job_id: str
    world_size: int
    ranks: tuple[int, ...]  # those whose record can be used
    missing: tuple[int, ...]  # all others
    pending: tuple[Pending, ...]
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]

    @property
    def conclusive(self) -> bool:
        """True if every rank's record is there, and there is a finding or nothing is in flight."""
        return not self.missing and (bool(self.findings) or not self.pending)


def analyze_dumps(dumps: Mapping[int, RankDump], job_id: str, notes: Sequence[str] = ()) -> FlightAnalysis:
    """Return the conclusion from the dumps of a job, at least one."""
    recorded = {rank: dump for rank, dump in dumps.items() if dump.entries}
    members = _members(dumps)
    world_size = max(max(ranks, default=0) for ranks in (*members.values(), dumps.keys())) + 1
    missing = tuple(rank for rank in range(world_size) if rank not in recorded)
    states = {rank: rank_state(job_id, 0, rank, world_size, "unknown") for rank in recorded}
    snapshot = Snapshot(
        job_id, 0.0, 0, world_size, tuple(states[rank] for rank in sorted(states)), missing, (), (),
        flights={rank: _record(dump, members) for rank, dump in recorded.items()},
    )  # fmt: skip
    lines = list(notes)
    empty = sorted(dumps.keys() - recorded.keys())
    if empty:
        lines.append(f"the record of {ranks_text(empty)} is empty: TORCH_FR_BUFFER_SIZE=0, or no collective yet")
    if absent := [rank for rank in missing if rank not in empty]:
        lines.append(f"no record of {ranks_text(absent)}: add the files, unless the ranks died before they wrote them")
    in_flight = [(rank, entry) for rank, dump in sorted(recorded.items()) for entry in dump.entries if not entry.done]
    pending = [Pending(rank, pending_collective(entry, None), entry.where) for rank, entry in in_flight]
    finding = _mismatch(snapshot, recorded, states) if states else None
    if finding is None and states:
        finding = _late_ranks(snapshot, recorded, pending)
    findings = (finding,) if finding else ()
    ranks = tuple(sorted(recorded))
    return FlightAnalysis(job_id, world_size, ranks, missing, tuple(pending), findings, tuple(lines))


def _members(dumps: Mapping[int, RankDump]) -> dict[str, frozenset[int]]:
    """Return the ranks of each process group that some dump lists, by the name of the group."""
    members: dict[str, frozenset[int]] = {}
    for dump in dumps.values():
        for name, ranks in dump.groups.items():
            members[name] = members.get(name, frozenset()) | ranks
    return members


def _record(dump: RankDump, members: Mapping[str, frozenset[int]]) -> FlightRecord:
    """Return the record of a rank. Its last sequence number is 0 in its groups in which it has issued nothing."""
    record = dump.record
    if dump.entries[0].record_id > 0:  # the recorder has dropped older entries, perhaps of this group
        return record
    issued = {entry.group.partition(":")[2] for entry in dump.entries}
    backend = dump.entries[0].backend
    never = {f"{backend}:{name}": 0 for name, ranks in members.items() if dump.rank in ranks and name not in issued}
    return replace(record, last={**never, **record.last})


def _mismatch(snapshot: Snapshot, dumps: Mapping[int, RankDump], states: Mapping[int, RankState]) -> Finding | None:
    """Return a finding about the first collective for which ranks brought different operations or sizes."""
    entries = {rank: _by_position(dump.entries) for rank, dump in dumps.items()}
    conflict: Mismatch | None = first_mismatch(
        Contribution(states[rank], group, sequence, op_of(entry.profiling_name), _same_bytes(entry))
        for rank, positions in entries.items()
        for (group, sequence), entry in positions.items()
    )
    if conflict is None:
        return None
    position = conflict.group, conflict.sequence
    has_culprits = bool(conflict.minority) and not snapshot.missing
    ranks = [r.rank for r in conflict.minority]
    agreeing = (rank for rank, positions in sorted(entries.items()) if position in positions and rank not in ranks)
    shown = [*ranks[: _MAX_SHAPES - 1], *agreeing][:_MAX_SHAPES]
    shapes = "; ".join(f"rank {rank}: {_entry_text(entries[rank][position])}" for rank in shown)
    culprits = f"{ranks_text(ranks)} {verb(ranks, 'differs', 'differ')}" if has_culprits else "no rank is named"
    return _stall(
        snapshot,
        cause="collective_mismatch" if has_culprits else "unknown",
        severity="critical" if has_culprits else "warning",
        culprits=conflict.minority if has_culprits else (),
        confidence=0.9 if has_culprits else 0.3,  # the majority is right, unless most ranks took the wrong path
        summary=f"ranks disagree about collective {conflict.sequence} of group {conflict.group}: "
        f"{conflict.differences} ({culprits}); {shapes}",
        detail="The ranks have taken different paths through the code, or split the work differently. Look at "
        "those lines for a branch on the rank, an uneven number of batches, or an exception that was swallowed.",
        evidence=StallEvidence(group=conflict.group, sequence=conflict.sequence),
    )


def _by_position(entries: Sequence[StoredEntry]) -> dict[tuple[str, int], StoredEntry]:
    """Return the entries that have a position of their own. Coalesced operations share one and are left out."""
    positions: defaultdict[tuple[str, int], list[StoredEntry]] = defaultdict(list)
    for entry in entries:
        if not entry.is_p2p and entry.collective_seq_id > 0:
            positions[entry.group, entry.collective_seq_id].append(entry)
    return {
        position: at_position[0]
        for position, at_position in positions.items()
        if len(at_position) == 1 and op_of(at_position[0].profiling_name) not in _UNCOUNTED
    }


def _same_bytes(entry: StoredEntry) -> int | None:
    """Return the bytes of an operation that needs the same number on every rank; None for other operations."""
    has_same_size = op_of(entry.profiling_name) in SAME_SIZE_ON_GPUS or entry.profiling_name.endswith("_base")
    return pending_collective(entry, None).num_bytes if has_same_size else None


def _entry_text(entry: StoredEntry) -> str:
    sizes = " ".join(map(str, entry.input_sizes[:2] or entry.output_sizes[:2]))
    return f"{op_of(entry.profiling_name)} {sizes}{f' at {entry.where}' if entry.where else ''}"


def _late_ranks(snapshot: Snapshot, dumps: Mapping[int, RankDump], pending: Sequence[Pending]) -> Finding | None:
    """Return a finding about the ranks that have not issued, or not reached, what others wait in; None: not known."""
    not_issued = root_ranks(snapshot)
    culprits = not_issued or behind_on_device(snapshot)
    if not culprits:
        return None
    ranks = sorted(r.rank for r in culprits)
    waits = _waits_for([snapshot.flights[rank] for rank in ranks], [wait for wait in pending if wait.rank not in ranks])
    stuck = waits[0].collective
    waiters = sorted({wait.rank for wait in waits})
    sizes = " ".join(str(list(size)) for size in stuck.sizes)
    state = "was not issued by" if not_issued else "has been reached by no GPU of"
    return _stall(
        snapshot,
        cause="compute_hang",
        severity="critical",
        culprits=culprits,
        confidence=0.8 if len(culprits) == 1 else 0.6,  # several that hang at once are rare: one may wait for another
        summary=f"{stuck.op} {stuck.sequence} of group {stuck.group} {sizes} is stuck: it {state} "
        f"{ranks_text(ranks)}, and {ranks_text(waiters)} {verb(waiters, 'waits', 'wait')} in it"
        f"{_issued_from(waits[0].where)}{_last_done(dumps[ranks[0]])}",
        detail=_NOT_ISSUED if not_issued else _NOT_REACHED,
        evidence=StallEvidence(group=stuck.group, sequence=stuck.sequence),
    )


def _waits_for(late: Sequence[FlightRecord], waits: Sequence[Pending]) -> Sequence[Pending]:
    """Return the waits in the collective that a late rank owes and in which most ranks wait, in the order of `waits`.

    Waits in other collectives may only follow from this one, and sequence numbers of different groups do not compare.
    """
    by_position: defaultdict[tuple[str, int], list[Pending]] = defaultdict(list)
    for wait in waits:
        if any(_owes(record, wait.collective) for record in late):
            by_position[wait.collective.group, wait.collective.sequence].append(wait)
    return max(by_position.values(), key=lambda same_collective: len({wait.rank for wait in same_collective}))


def _owes(record: FlightRecord, collective: PendingCollective) -> bool:
    """Return True if a late rank has not issued the collective, or if its GPU has to reach it next."""
    if record.pending:
        first = record.pending[0]
        return (first.group, first.sequence, first.op) == (collective.group, collective.sequence, collective.op)
    if collective.op in _UNCOUNTED:
        return False
    if not record.last:  # the late rank has issued nothing that counts; it is a member of the default group in any case
        return collective.group.rpartition(":")[2] == DEFAULT_GROUP
    return record.last.get(collective.group, collective.sequence) < collective.sequence


def _last_done(dump: RankDump) -> str:
    """Return a clause about the last operation of a rank that is done; empty if none is."""
    last = next((entry for entry in reversed(dump.entries) if entry.done), None)
    if last is None:
        return ""
    operation = f"{op_of(last.profiling_name)} {last.collective_seq_id} of group {last.group}"
    return f"; the last operation of rank {dump.rank} that is done is {operation}{_issued_from(last.where)}"


def _issued_from(where: str) -> str:
    return f", from {where}" if where else ""
