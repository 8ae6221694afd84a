"""Compare how many collectives of each process group the ranks have entered. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from zmon.schema.names import DEFAULT_GROUP
from zmon.schema.rank import RankState


def entered_counts(state: RankState) -> dict[str, int]:
    """Return the number of collectives that the rank has entered, by group, including its current collective."""
    current = {state.in_flight.group: state.in_flight.sequence} if state.in_flight else {}
    return {**state.sequences, **current}


def entered(ranks: Iterable[RankState]) -> Iterator[tuple[str, int]]:
    """Yield group and number of the collectives that each of these ranks has entered."""
    for state in ranks:
        yield from entered_counts(state).items()


def furthest(counts: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Return the largest of these counts by group."""
    largest: dict[str, int] = {}
    for group, count in counts:
        largest[group] = max(count, largest.get(group, 0))
    return largest


def is_behind(state: RankState, counts: Mapping[str, int]) -> bool:
    """Return True if the rank has entered fewer collectives of one of its groups than these.

    A rank that has entered no collective of a group is not known to be in it, unless it is the group of all ranks.
    """
    counts_of_rank = {DEFAULT_GROUP: 0, **state.sequences}
    return any(count < counts.get(group, 0) for group, count in counts_of_rank.items())
