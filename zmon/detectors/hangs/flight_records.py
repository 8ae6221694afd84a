"""Find out from torch's flight records which rank waits for which, also in collectives that Python does not see.

A rank is awaited if it has not issued a collective that is pending on other ranks. This holds on GPUs too, where a rank
issues a collective and goes on: once nothing moves, every rank has issued all that it could. A rank with a pending
collective waits itself; the end of the chain has none. The records count only if the record of every rank is there,
because the missing one may be the culprit's.
"""

from __future__ import annotations

from collections.abc import Sequence

from zmon.detectors.collectives import Contribution, Mismatch, first_mismatch
from zmon.schema.flight import FlightRecord, PendingCollective
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.names import DEFAULT_GROUP
from zmon.schema.rank import InFlight, RankState

_UNCOUNTED = ("send", "recv", "coalesced")  # they have another count, or none; gloo has no records of them


def _are_complete(snapshot: Snapshot) -> bool:
    """Return True if the record of every rank is there."""
    watched = not snapshot.missing and not snapshot.unwatched
    return watched and all(rank in snapshot.flights for rank in range(snapshot.world_size))


def awaited_ranks(snapshot: Snapshot) -> list[RankState]:
    """Return the ranks that have not issued the oldest pending collective of another rank of the same group."""
    if not _are_complete(snapshot):
        return []
    furthest: dict[str, int] = {}
    for r in snapshot.ranks:
        for group, sequence in _oldest_pending(snapshot.flights[r.rank]).items():
            furthest[group] = max(sequence, furthest.get(group, 0))
    return [r for r in snapshot.ranks if _is_behind(_last_issued(snapshot.flights[r.rank]), furthest)]


def root_ranks(snapshot: Snapshot) -> list[RankState]:
    """Return the awaited ranks that wait for nothing themselves, by flight record and box."""
    return [r for r in awaited_ranks(snapshot) if not is_waiting(snapshot, r)]


def behind_on_device(snapshot: Snapshot) -> list[RankState]:
    """Return the ranks whose GPU has not reached a collective that other GPUs are in.

    The records tell this only with TORCH_NCCL_ENABLE_TIMING.
    """
    if not _are_complete(snapshot) or awaited_ranks(snapshot):
        return []
    first = {r.rank: pending[0] for r in snapshot.ranks if (pending := snapshot.flights[r.rank].pending)}
    started = {(p.group, p.sequence, p.op) for p in first.values() if p.state == "started"}
    behind = {rank for rank, p in first.items() if p.state == "scheduled" and (p.group, p.sequence, p.op) in started}
    return [r for r in snapshot.ranks if r.rank in behind]


def all_wait(snapshot: Snapshot, alive: Sequence[RankState]) -> bool:
    """Return True if every rank is in a collective; or if every rank has something pending and no rank is awaited."""
    if all(r.in_flight for r in alive):
        return True
    all_have_pending = _are_complete(snapshot) and all(flight.num_pending for flight in snapshot.flights.values())
    return all_have_pending and not awaited_ranks(snapshot)


def is_waiting(snapshot: Snapshot, state: RankState) -> bool:
    """Return True if a rank is in a collective that is not over, or has one pending that C++ issued."""
    flight = snapshot.flights.get(state.rank)
    if flight is not None and flight.num_pending > 0:
        return True
    return state.in_flight is not None and not (flight is not None and _is_over(state.in_flight, flight))


def mismatch(snapshot: Snapshot, even: Sequence[str]) -> Mismatch | None:
    """Return the first position at which ranks have different collectives pending, or other sizes of the same one.

    `even`: further operations whose size must be the same on every rank; see even_ops.
    """
    if not _are_complete(snapshot):
        return None
    return first_mismatch(
        Contribution(r, p.group, p.sequence, p.op, p.num_bytes if _is_same_size(p) or p.op in even else None)
        for r in snapshot.ranks
        for p in _collectives(snapshot.flights[r.rank])
    )


def _is_over(op: InFlight, flight: FlightRecord) -> bool:
    """Return True if a collective has ended by the record, although its caller does not go on.

    Python runs the job's signal handlers when the collective returns, so a rank in a handler looks as if it still
    waits. torch does not record a monitored barrier.
    """
    last = max((last for group, last in flight.last.items() if group.rpartition(":")[2] == op.group), default=0)
    return op.op != "barrier" and 0 < op.sequence <= last


def _is_same_size(pending: PendingCollective) -> bool:
    return pending.op == "all_reduce" or pending.name.endswith("_base")  # the others take lists of tensors


def _collectives(flight: FlightRecord) -> Sequence[PendingCollective]:
    return [p for p in flight.pending if p.op not in _UNCOUNTED]


def _oldest_pending(flight: FlightRecord) -> dict[str, int]:
    """Return the first sequence that is pending, by group."""
    oldest: dict[str, int] = {}
    for pending in _collectives(flight):
        oldest[pending.group] = min(pending.sequence, oldest.get(pending.group, pending.sequence))
    return oldest


def _last_issued(flight: FlightRecord) -> dict[str, int]:
    """Return the last sequence that the rank has issued, by group.

    If the record lacks a group, the rank may not be in that group, or the record may no longer contain it.
    """
    last = dict(flight.last)
    for pending in _collectives(flight):
        last[pending.group] = max(last.get(pending.group, 0), pending.sequence)
    return last


def _is_behind(issued: dict[str, int], furthest: dict[str, int]) -> bool:
    if not issued:  # the rank has issued nothing: it is in the group of all ranks
        return any(group.rpartition(":")[2] == DEFAULT_GROUP and sequence > 0 for group, sequence in furthest.items())
    return any(issued.get(group, sequence) < sequence for group, sequence in furthest.items())
