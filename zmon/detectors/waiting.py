"""Nothing moves: for whom do the ranks wait, and have they agreed on what comes next?

A rank counts its collectives by process group, and says which one it is in. Whoever has entered fewer than another one
waits in is waited for; if it is in none itself, it is where the waiting ends. Pure, and one pass over the ranks.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from zmon.records import InFlight, RankState

# The tensors of these are as large on every rank. Splits of the others may differ, and only one rank sends a broadcast.
SAME_SIZE = ("all_reduce", "all_gather", "reduce_scatter", "reduce")


class Mismatch(NamedTuple):
    """Ranks that are at the same place of a group's sequence, in different collectives."""

    group: str
    sequence: int
    minority: list[RankState]  # empty: as many did the one as the other
    said: str


def waited_for(ranks: Sequence[RankState]) -> list[RankState]:
    """Those in no collective that others wait for; all in none, where nobody's count tells them apart."""
    inside = [r.in_flight for r in ranks if r.in_flight]
    outside = [r for r in ranks if not r.in_flight]
    furthest: dict[str, int] = {}
    for op in inside:
        furthest[op.group] = max(op.sequence, furthest.get(op.group, 0))
    behind = [r for r in outside if any(count < furthest.get(group, 0) for group, count in r.sequences.items())]
    return (behind or outside) if inside else []


def mismatch(ranks: Iterable[RankState]) -> Mismatch | None:
    """The first place at which ranks disagree about the collective, or about the size of its tensors."""
    places: defaultdict[tuple[str, int], list[RankState]] = defaultdict(list)
    for r in ranks:
        if r.in_flight and r.in_flight.group:
            places[r.in_flight.group, r.in_flight.sequence].append(r)
    for (group, sequence), there in sorted(places.items()):
        kinds = Counter(_kind(r.in_flight) for r in there if r.in_flight)
        if len(kinds) < 2:
            continue
        (usual, count), *_ = kinds.most_common()
        minority = [r for r in there if r.in_flight and _kind(r.in_flight) != usual]
        said = "; ".join(f"{_named(kind)}: ranks {_listed(there, kind)}" for kind, _ in kinds.most_common())
        return Mismatch(group, sequence, minority if 2 * count > len(there) else [], said)
    return None


def _kind(op: InFlight) -> tuple[str, int | None]:
    return op.op, op.num_bytes if op.op in SAME_SIZE else None


def _named(kind: tuple[str, int | None]) -> str:
    op, num_bytes = kind
    return op if num_bytes is None else f"{op} of {num_bytes} bytes"


def _listed(ranks: list[RankState], kind: tuple[str, int | None]) -> str:
    numbers = sorted(r.rank for r in ranks if r.in_flight and _kind(r.in_flight) == kind)
    more = f" and {len(numbers) - 8} more" if len(numbers) > 8 else ""
    return ", ".join(map(str, numbers[:8])) + more
