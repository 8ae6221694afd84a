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

    usual: list[RankState]  # the ranks in the collective with more ranks; only members of both groups
    usual_collective: InFlight
    odd: list[RankState]  # the ranks in the other collective
    odd_collective: InFlight

    @property
    def minority(self) -> list[RankState]:
        """The ranks that differ from the majority; empty if there is no majority."""
        return self.odd if len(self.odd) < len(self.usual) else []

    @property
    def text(self) -> str:
        """The two sides, as the beginning of a summary."""
        odd = f"{ranks_on(self.odd)} in {_name(self.odd_collective)}"
        usual = f"{ranks_on(self.usual)} in {_name(self.usual_collective)}"
        return f"ranks wait for each other: {odd}, and {usual}; neither side has entered the collective of the other"


def crossed_order(ranks: Sequence[RankState]) -> CrossedOrder | None:
    """Return the two collectives in which all of these ranks wait for each other; None if they do not."""
    sides: defaultdict[tuple[str, int], list[RankState]] = defaultdict(list)  # by group and sequence
    collectives: dict[tuple[str, int], InFlight] = {}
    for state in ranks:
        collective = state.in_flight
        if collective is None or not collective.sequence:
            return None  # it is in no collective, or in one without a position
        position = collective.group, collective.sequence
        sides[position].append(state)
        collectives.setdefault(position, collective)
    if len(sides) != 2:
        return None
    usual, odd = sorted(sides, key=lambda position: len(sides[position]), reverse=True)
    usual_collective, odd_collective = collectives[usual], collectives[odd]
    if usual_collective.group == odd_collective.group:
        return None  # one side is ahead in the same sequence, as at the end of a collective
    members = [r for r in sides[usual] if r.sequences.get(odd_collective.group)]
    are_waiting = bool(members) and _all_miss(sides[odd], usual_collective) and _all_miss(members, odd_collective)
    return CrossedOrder(members, usual_collective, sides[odd], odd_collective) if are_waiting else None


def _all_miss(ranks: Sequence[RankState], collective: InFlight) -> bool:
    """Return True if all these ranks are members of the collective's group and have not entered the collective."""
    counts = [state.sequences.get(collective.group) for state in ranks]
    return all(count is not None and count < collective.sequence for count in counts)


def _name(collective: InFlight) -> str:
    return f"{collective.op} {collective.sequence} of group {collective.group}"
