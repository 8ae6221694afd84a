"""Decide from the flight records of a job that stood still which collective is stuck, and because of whom.

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
from zmon.schema.names import SEQUENCE, STALL
from zmon.schema.rank import RankState

_UNCOUNTED = ("send", "recv", "coalesced")
_stall = partial(new_finding, detector=STALL, proof=SEQUENCE, seconds_ago=0.0)


@dataclass(frozen=True)
class Pending:
    """A collective in which one rank waits."""

    rank: int
    collective: PendingCollective
    where: str  # the line of the job that issued it; empty if it is unknown


@dataclass(frozen=True)
class FlightAnalysis:
    """The conclusion from the flight records of one job."""

    job_id: str
    world_size: int
    ranks: tuple[int, ...]  # those whose record can be used
    missing: tuple[int, ...]
    pending: tuple[Pending, ...]
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]

    @property
    def conclusive(self) -> bool:
        """True if every rank's record is there, and a finding names a cause or nothing is in flight."""
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
    ranks, findings = tuple(sorted(recorded)), (finding,) if finding else ()
    return FlightAnalysis(job_id, world_size, ranks, missing, tuple(pending), findings, tuple(lines))


def _members(dumps: Mapping[int, RankDump]) -> dict[str, frozenset[int]]:
    """Return the ranks of each process group that some dump lists, by the name of the group."""
    members: dict[str, frozenset[int]] = {}
    for dump in dumps.values():
        for name, ranks in dump.groups.items():
            members[name] = members.get(name, frozenset()) | ranks
    return members


def _record(dump: RankDump, members: Mapping[str, frozenset[int]]) -> FlightRecord:
    """Return the record of a rank. A group of which it is a member, and in which it has issued nothing, counts as 0."""
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
    shapes = "; ".join(
        f"rank {rank}: {_text(positions[position])}" for rank, positions in sorted(entries.items())[:8]
        if position in positions
    )  # fmt: skip
    has_culprits = bool(conflict.minority) and not snapshot.missing
    ranks = [r.rank for r in conflict.minority]
    culprits = f"{ranks_text(ranks)} {verb(ranks, 'differs', 'differ')}" if has_culprits else "no rank is named"
    return _stall(
        snapshot,
        cause="collective_mismatch" if has_culprits else "unknown",
        severity="critical" if has_culprits else "warning",
        culprits=conflict.minority if has_culprits else (),
        confidence=0.9 if has_culprits else 0.3,
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
        position: each[0]
        for position, each in positions.items()
        if len(each) == 1 and op_of(each[0].profiling_name) not in _UNCOUNTED
    }


def _same_bytes(entry: StoredEntry) -> int | None:
    """Return the bytes of an operation that needs the same number on every rank; None for the others."""
    same = op_of(entry.profiling_name) in SAME_SIZE_ON_GPUS or entry.profiling_name.endswith("_base")
    return pending_collective(entry, None).num_bytes if same else None


def _text(entry: StoredEntry) -> str:
    sizes = " ".join(map(str, entry.input_sizes[:2] or entry.output_sizes[:2]))
    return f"{op_of(entry.profiling_name)} {sizes}{f' at {entry.where}' if entry.where else ''}"


def _late_ranks(snapshot: Snapshot, dumps: Mapping[int, RankDump], pending: Sequence[Pending]) -> Finding | None:
    """Return a finding about the ranks that did not issue the collective of the others; None: they are not known."""
    late_on_device = behind_on_device(snapshot)
    culprits = root_ranks(snapshot) or late_on_device
    if not culprits:
        return None
    ranks = {r.rank for r in culprits}
    waiting = [each for each in pending if each.rank not in ranks and each.collective.op not in _UNCOUNTED]
    first = min(waiting or pending, key=lambda each: (each.collective.sequence, each.rank))
    stuck = first.collective
    sizes = " ".join(str(list(size)) for size in stuck.sizes)
    position = stuck.group, stuck.sequence
    waiters = sorted({w.rank for w in waiting if (w.collective.group, w.collective.sequence) == position})
    state = "has been reached by no GPU of" if culprits is late_on_device else "was not issued by"
    return _stall(
        snapshot,
        cause="compute_hang",
        severity="critical",
        culprits=culprits,
        confidence=0.8 if len(culprits) == 1 else 0.6,
        summary=f"{stuck.op} {stuck.sequence} of group {stuck.group} {sizes} is stuck: it {state} "
        f"{ranks_text(sorted(ranks))}, and {ranks_text(waiters)} {verb(waiters, 'waits', 'wait')} in it"
        f"{_from(first.where)}{_last_done(dumps[culprits[0].rank])}",
        detail="The rank was in no collective: it computed, loaded data, hung, or took another path through the code. "
        "Its stack or its log has the reason: the records show where it was last.",
        evidence=StallEvidence(group=stuck.group, sequence=stuck.sequence),
    )


def _last_done(dump: RankDump) -> str:
    """Return a clause about the last operation of a rank that is done; empty if none is."""
    last = next((entry for entry in reversed(dump.entries) if entry.done), None)
    if last is None:
        return ""
    operation = f"{op_of(last.profiling_name)} {last.collective_seq_id} of group {last.group}"
    return f"; the last operation of rank {dump.rank} that is done is {operation}{_from(last.where)}"


def _from(where: str) -> str:
    return f", from {where}" if where else ""
