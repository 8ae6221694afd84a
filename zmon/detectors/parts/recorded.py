"""What torch's flight records say of a job in which nothing moves, also of collectives that Python does not see.

By them a rank is waited for that has not issued what others have pending. That holds on GPUs too, where a rank issues
and goes on: once nothing moves, whoever could issue more has done so. A rank that has something pending itself waits,
too; the end of the chain has nothing pending. Records count only if every rank's is there: a missing one may be that
of the rank at fault.
"""

from __future__ import annotations

from collections.abc import Sequence

from zmon.detectors.parts.waiting import Brought, Mismatch, disagreement
from zmon.schema.flight import FlightRecord, PendingCollective
from zmon.schema.rank import RankState
from zmon.schema.snapshot import Snapshot

_UNCOUNTED = ("send", "recv", "coalesced")  # a count of their own, or none; of gloo's there are no records


def complete(snapshot: Snapshot) -> bool:
    """Whether the record of every rank is there."""
    watched = not snapshot.missing and not snapshot.unwatched
    return watched and all(rank in snapshot.flights for rank in range(snapshot.world_size))


def awaited(snapshot: Snapshot) -> list[RankState]:
    """Those that have not issued what another rank of the same group has had pending for longest."""
    if not complete(snapshot):
        return []
    furthest: dict[str, int] = {}
    for r in snapshot.ranks:
        for group, sequence in _oldest(snapshot.flights[r.rank]).items():
            furthest[group] = max(sequence, furthest.get(group, 0))
    return [r for r in snapshot.ranks if _lacks(_issued(snapshot.flights[r.rank]), furthest)]


def roots(snapshot: Snapshot) -> list[RankState]:
    """Those that others wait for and that wait for nothing themselves, as far as record and box tell."""
    return [r for r in awaited(snapshot) if not snapshot.flights[r.rank].num_pending and not r.in_flight]


def behind_on_device(snapshot: Snapshot) -> list[RankState]:
    """Those whose GPU has not come to a collective that others' GPUs are in; known with TORCH_NCCL_ENABLE_TIMING."""
    if not complete(snapshot) or awaited(snapshot):
        return []
    first = {r.rank: snapshot.flights[r.rank].pending[:1] for r in snapshot.ranks}
    started = {(p.group, p.sequence, p.op) for pending in first.values() for p in pending if p.state == "started"}
    return [
        r
        for r in snapshot.ranks
        if any(p.state == "scheduled" and (p.group, p.sequence, p.op) in started for p in first[r.rank])
    ]


def all_wait(snapshot: Snapshot) -> bool:
    """Whether every rank has something pending, and none lacks what another one waits in."""
    return complete(snapshot) and all(f.num_pending for f in snapshot.flights.values()) and not awaited(snapshot)


def mismatch(snapshot: Snapshot) -> Mismatch | None:
    """The first place at which the ranks have different collectives pending, or other sizes of the same."""
    if not complete(snapshot):
        return None
    return disagreement(
        Brought(r, p.group, p.sequence, p.op, p.num_bytes if _same_size(p) else None)
        for r in snapshot.ranks
        for p in _collectives(snapshot.flights[r.rank])
    )


def _same_size(pending: PendingCollective) -> bool:
    return pending.op == "all_reduce" or pending.name.endswith("_base")  # the others take lists of tensors


def _collectives(flight: FlightRecord) -> Sequence[PendingCollective]:
    return [p for p in flight.pending if p.op not in _UNCOUNTED]


def _oldest(flight: FlightRecord) -> dict[str, int]:
    """By group: the first collective that is pending."""
    found: dict[str, int] = {}
    for pending in _collectives(flight):
        found[pending.group] = min(pending.sequence, found.get(pending.group, pending.sequence))
    return found


def _issued(flight: FlightRecord) -> dict[str, int]:
    """By group: how far the rank has come. A group that its record does not hold may be another's, or forgotten."""
    found = dict(flight.last)
    for pending in _collectives(flight):
        found[pending.group] = max(found.get(pending.group, 0), pending.sequence)
    return found


def _lacks(issued: dict[str, int], furthest: dict[str, int]) -> bool:
    return any(issued.get(group, sequence) < sequence for group, sequence in furthest.items())
