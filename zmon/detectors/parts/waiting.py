"""Nothing moves: for whom do the ranks wait, and have they agreed on what comes next?

A rank counts its collectives by process group, and says which one it is in. Whoever has entered fewer than another one
waits in is waited for; if it is in none itself, it is where the waiting ends. Pure, and one pass over the ranks.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from zmon.detectors.parts.wording import numbers
from zmon.schema.rank import InFlight, RankState

# What is handed in and out of these is as large on every rank; splits of an all-to-all may differ, and of the others
# one rank has all. Lists of tensors may differ with NCCL, and not with gloo.
SAME_SIZE = ("all_reduce", "all_gather", "reduce_scatter")
SAME_SIZE_ON_GPUS = ("all_reduce",)


class Brought(NamedTuple):
    """What one rank brought to one place of a group's sequence; `num_bytes` None where sizes may differ."""

    rank: RankState
    group: str
    sequence: int
    op: str
    num_bytes: int | None

    @property
    def kind(self) -> tuple[str, int | None]:
        """What all ranks there must have in common."""
        return self.op, self.num_bytes


class Mismatch(NamedTuple):
    """Ranks that are at the same place of a group's sequence, in different collectives."""

    group: str
    sequence: int
    minority: list[RankState]  # empty: as many did the one as the other
    said: str


def waited_for(ranks: Sequence[RankState]) -> list[RankState]:
    """Those in no collective that others wait for.

    Where nobody's count tells that (send and recv have none), the one that is in none, if it is the only one.
    """
    inside = [r.in_flight for r in ranks if r.in_flight]
    outside = [r for r in ranks if not r.in_flight]
    furthest: dict[str, int] = {}
    for op in inside:
        furthest[op.group] = max(op.sequence, furthest.get(op.group, 0))
    behind = [r for r in outside if any(count < furthest.get(group, 0) for group, count in r.sequences.items())]
    uncounted = any(not op.sequence for op in inside)
    return behind or (outside if uncounted and len(outside) == 1 else [])


def mismatch(ranks: Iterable[RankState]) -> Mismatch | None:
    """The first place at which ranks wait for different collectives, or for other sizes of the same."""
    return disagreement(_waits(r, r.in_flight) for r in ranks if r.in_flight)


def _waits(rank: RankState, op: InFlight) -> Brought:
    same = op.op in (SAME_SIZE if rank.device == "cpu" else SAME_SIZE_ON_GPUS)
    return Brought(rank, op.group, op.sequence, op.op, op.num_bytes if same else None)


def disagreement(brought: Iterable[Brought]) -> Mismatch | None:
    """The first place at which ranks did not bring the same. Operations without a sequence have no place."""
    places: defaultdict[tuple[str, int], list[Brought]] = defaultdict(list)
    for one in brought:
        if one.group and one.sequence:
            places[one.group, one.sequence].append(one)
    for (group, sequence), there in sorted(places.items(), key=lambda place: place[0]):
        kinds = Counter(one.kind for one in there)
        if len(kinds) < 2:
            continue
        (usual, count), *_ = kinds.most_common()
        minority = [one.rank for one in there if one.kind != usual] if 2 * count > len(there) else []
        said = "; ".join(f"{_named(kind)}: ranks {_listed(there, kind)}" for kind, _ in kinds.most_common())
        return Mismatch(group, sequence, minority, said)
    return None


def _named(kind: tuple[str, int | None]) -> str:
    op, num_bytes = kind
    return op if num_bytes is None else f"{op} of {num_bytes} bytes"


def _listed(there: Sequence[Brought], kind: tuple[str, int | None]) -> str:
    return numbers(sorted(one.rank.rank for one in there if one.kind == kind))
