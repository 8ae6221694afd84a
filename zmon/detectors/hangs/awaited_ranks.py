"""Find the ranks that others wait for, and the ranks that disagree about the next collective, when nothing moves.

Each rank counts its collectives by process group and reports which one it is in. If a rank has entered fewer
collectives of a group than another rank waits in, the others wait for it. If it is in no collective itself, it is the
end of the chain. Pure; one pass over the ranks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

from zmon.detectors.collectives import SAME_SIZE_ON_GPUS, Contribution, Mismatch, first_mismatch
from zmon.job.sequences import furthest, is_behind
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.names import SAME_SIZE_OPS
from zmon.schema.rank import InFlight, RankState


def has_one_rank(snapshot: Snapshot) -> bool:
    """Return True if the job has one rank, which can wait for no other, whatever its stack looks like."""
    return snapshot.world_size == 1


def awaited_ranks(ranks: Sequence[RankState]) -> list[RankState]:
    """Return the ranks in no collective that others wait for.

    Some operations, send and recv, have no count. If a rank waits in one of them and only one rank is in no
    collective, that rank is the result.
    """
    inside = [r.in_flight for r in ranks if r.in_flight]
    outside = [r for r in ranks if not r.in_flight]
    due = furthest((op.group, op.sequence) for op in inside)
    behind = [r for r in outside if is_behind(r, due)]
    has_uncounted = any(not op.sequence for op in inside)
    return behind or (outside if has_uncounted and len(outside) == 1 else [])


def without(ranks: Sequence[RankState], awaited: Collection[RankState]) -> list[RankState]:
    """Return the ranks that are not among the awaited ones."""
    awaited_numbers = {rank.rank for rank in awaited}
    return [rank for rank in ranks if rank.rank not in awaited_numbers]


def ranks_by_place(others: Sequence[RankState]) -> list[RankState]:
    """Return the ranks in no collective, and one rank of each collective: their places show where all ranks stand."""
    by_collective: dict[tuple[str, str, int], RankState] = {}
    for rank in others:
        if rank.in_flight:
            by_collective.setdefault((rank.in_flight.op, rank.in_flight.group, rank.in_flight.sequence), rank)
    return [*by_collective.values(), *(r for r in others if not r.in_flight)]


def have_issued_alike(ranks: Sequence[RankState]) -> bool:
    """Return True if all ranks are on GPUs, have issued equally many collectives of each group, and read no data.

    There a rank issues a collective and goes on, so a rank that hangs would be behind those that wait for it. But all
    ranks may wait for the same storage.
    """
    issued: defaultdict[str, set[int]] = defaultdict(set)
    for rank in ranks:
        for group, count in rank.sequences.items():
            issued[group].add(count)
    on_gpus = bool(ranks) and all(r.device != "cpu" and r.phase != "data" for r in ranks)
    return on_gpus and any(counts != {0} for counts in issued.values()) and all(len(c) == 1 for c in issued.values())


def mismatch(ranks: Iterable[RankState], even: Sequence[str]) -> Mismatch | None:
    """Return the first position at which ranks wait for different collectives, or for other sizes of the same one.

    `even`: further operations whose size must be the same on every rank; see even_ops.
    """
    return first_mismatch(_contribution(r, r.in_flight, even) for r in ranks if r.in_flight)


def _contribution(rank: RankState, op: InFlight, even: Sequence[str]) -> Contribution:
    same = op.op in (*(SAME_SIZE_OPS if rank.device == "cpu" else SAME_SIZE_ON_GPUS), *even)
    return Contribution(rank, op.group, op.sequence, op.op, op.num_bytes if same else None)
