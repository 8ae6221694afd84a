"""Choose the ranks that stand out: if thousands wait in one collective, the ranks that do something else. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from zmon.schema.rank import RankState


def standing_out(ranks: Sequence[RankState], most: int, first: Collection[int] = ()) -> Sequence[RankState]:
    """Return at most `most` of the ranks, in their order: those in `first`, then those whose place is the rarest."""
    if len(ranks) <= most:
        return ranks
    first_ranks = frozenset(first)
    num_at_place = Counter(map(_place, ranks))
    rarest = sorted(ranks, key=lambda r: (r.rank not in first_ranks, num_at_place[_place(r)]))[:most]
    return sorted(rarest, key=lambda r: r.rank)


def _place(state: RankState) -> tuple[object, ...]:
    """Return where a rank stands: its activity, phase and step, and the collectives that it has entered."""
    collective = state.in_flight
    return (
        state.alive, state.activity, state.phase, state.step, state.process_state, *sorted(state.sequences.items()),
        None if collective is None else (collective.op, collective.group, collective.sequence),
    )  # fmt: skip
