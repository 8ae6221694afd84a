"""Find ranks that entered the collectives of two groups in another order than the others, so that all wait for all.

A rank inside a collective of one group then waits for ranks inside a collective of another group, and those wait for
it: each has not entered the collective of the other side, so none of them can ever go on. The ranks that are members of
only the larger group wait as well, and say nothing about the order. Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from zmon.detectors.wording import ranks_on
from zmon.schema.rank import InFlight, RankState


class CrossedOrder(NamedTuple):
    """Two collectives whose ranks wait for each other, the one with more ranks first."""

    usual: list[RankState]  # only members of both groups
    collective: InFlight  # the usual one
    odd: list[RankState]
    other: InFlight

    @property
    def minority(self) -> list[RankState]:
        """The ranks that differ from the majority; empty if there is no majority."""
        return self.odd if len(self.odd) < len(self.usual) else []

    @property
    def text(self) -> str:
        """The two sides, as the beginning of a summary."""
        return (
            f"ranks wait for each other: {ranks_on(self.odd)} in {_name(self.other)}, and {ranks_on(self.usual)} in "
            f"{_name(self.collective)}; neither side has entered the collective of the other"
        )


def crossed_order(ranks: Sequence[RankState]) -> CrossedOrder | None:
    """Return the two collectives in which all of these ranks wait for each other; None if they do not."""
    sides: defaultdict[tuple[str, int], list[tuple[RankState, InFlight]]] = defaultdict(list)
    for state in ranks:
        if state.in_flight is None or not state.in_flight.sequence:
            return None  # it is in no collective, or in one without a position
        sides[state.in_flight.group, state.in_flight.sequence].append((state, state.in_flight))
    if len(sides) != 2:
        return None
    usual, odd = sorted(sides.values(), key=len, reverse=True)
    if usual[0][1].group == odd[0][1].group:
        return None  # one side is ahead in the same sequence, as at the end of a collective
    collective, other = usual[0][1], odd[0][1]
    members = [r for r, _ in usual if r.sequences.get(other.group)]
    crossed = CrossedOrder(members, collective, [r for r, _ in odd], other)
    waits = bool(members) and _all_miss(crossed.odd, collective) and _all_miss(members, other)
    return crossed if waits else None


def _all_miss(ranks: Sequence[RankState], collective: InFlight) -> bool:
    """Return True if all these ranks are members of the collective's group and have not entered the collective."""
    counts = [state.sequences.get(collective.group) for state in ranks]
    return all(count is not None and count < collective.sequence for count in counts)


def _name(collective: InFlight) -> str:
    return f"{collective.op} {collective.sequence} of group {collective.group}"
