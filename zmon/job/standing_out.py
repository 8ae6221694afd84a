"""Choose the ranks that stand out: where thousands wait in one collective, those count that do something else. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from zmon.schema.rank import RankState


def standing_out(ranks: Sequence[RankState], most: int, first: Collection[int] = ()) -> Sequence[RankState]:
    """Return at most so many of the ranks, in their order: those in `first`, then those whose place is the rarest."""
    if len(ranks) <= most:
        return ranks
    first_ranks, number_alike = frozenset(first), Counter(map(_place, ranks))
    rarest = sorted(ranks, key=lambda r: (r.rank not in first_ranks, number_alike[_place(r)]))[:most]
    return sorted(rarest, key=lambda r: r.rank)


def _place(state: RankState) -> tuple[object, ...]:
    """Return where a rank stands: ranks that wait for the same rank in the same collective stand alike."""
    inside = state.in_flight
    return (
        state.alive, state.activity, state.phase, state.step, state.process_state, *sorted(state.sequences.items()),
        None if inside is None else (inside.op, inside.group, inside.sequence),
    )  # fmt: skip
