"""Find the rank that skipped a collective of one group and waits in the next collective of another group.

With several groups (tensor and data parallel) the ranks then wait in a circle: those of the first group for the rank,
and the rank, in the second group, for those. The ranks that are in the second group with it show what it skipped. All
of them entered an operation of the skipped kind just before, and the rank did not. Or all of them entered the same
number of collectives, and the rank fewer, while it has passed another rank in one group and is behind it in a second
one: ranks that run the same program never pass each other like this.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from zmon.format import counted
from zmon.schema.rank import InFlight, RankState

# A rank that skipped a collective lacks few. A rank of another role, with fewer in each step, lacks one a step or more.
_STEPS_PER_SKIP = 10


class Skipped(NamedTuple):
    """A collective that one rank did not enter before the next one, and in which others wait."""

    rank: RankState
    op: str
    group: str
    sequence: int
    reason: str  # the end of a sentence about the rank


def skipped_collective(ranks: Sequence[RankState]) -> Skipped | None:
    """Return the collective that exactly one rank skipped; None if the order of no rank, or of several, differs."""
    places = _Places(ranks)
    for rule in (_by_order, _by_number):
        skipped = [*islice((skip for rank in ranks if (skip := rule(rank, places))), 2)]
        if skipped:
            return skipped[0] if len(skipped) == 1 else None
    return None


class _Places:
    """The collectives in which ranks are, so that no rank must be compared with all others."""

    def __init__(self, ranks: Sequence[RankState]) -> None:
        self.ranks = ranks
        self._kinds: defaultdict[tuple[str, int], Counter[_Kind]] = defaultdict(Counter)
        self._insides: defaultdict[str, dict[InFlight, int]] = defaultdict(dict)  # by group, with the first place
        for place, state in enumerate(ranks):
            if state.in_flight is not None and (position := _position(state.in_flight)):
                self._kinds[position][_Kind(_numbers(state), _op_before(state))] += 1
                inside = state.in_flight
                self._insides[inside.group].setdefault(replace(inside, num_bytes=0, seconds=0.0), place)

    def peers(self, state: RankState) -> set[_Kind]:
        """Return the kinds of the other ranks that are in the same collective as this one."""
        position = _position(state.in_flight)
        if position is None:
            return set()
        kinds = self._kinds[position] - Counter([_Kind(_numbers(state), _op_before(state))])
        return set(kinds)

    def awaiting(self, state: RankState) -> list[InFlight]:
        """Return the collectives in which ranks are, and which this one has not entered although it is in the group."""
        first: dict[InFlight, int] = {}
        for group, count in state.sequences.items():
            if count > 0 and group in self._insides:
                first |= {inside: at for inside, at in self._insides[group].items() if inside.sequence > count}
        return sorted(first, key=first.__getitem__)


def _by_order(state: RankState, places: _Places) -> Skipped | None:
    """Return what the rank skipped if the ranks in the same collective entered it just before, and the rank did not."""
    before = _op_before(state)
    if before is None:
        return None
    ops = {kind.op_before for kind in places.peers(state)}
    for inside in places.awaiting(state):
        if before != inside.op and ops == {inside.op}:
            reason = f"the ranks that are there with it entered {inside.op} before"
            return Skipped(state, inside.op, inside.group, inside.sequence, reason)
    return None


def _by_number(state: RankState, places: _Places) -> Skipped | None:
    """Return what the rank skipped if it entered fewer collectives than all ranks that are in the same one."""
    peers = places.peers(state)
    if len(peers) != 1:
        return None  # nobody is there with it, or those who are there have different roles
    usual, numbers = next(iter(peers)).numbers, _numbers(state)
    fewer = sum(usual) - sum(numbers)
    if len(usual) != len(numbers) or fewer <= 0 or fewer * _STEPS_PER_SKIP > state.step:
        return None  # it has another role, in which a step has fewer collectives
    for other in places.ranks:
        behind = [group for group, count in other.sequences.items() if 0 < state.sequences.get(group, count) < count]
        if behind and any(0 < other.sequences.get(group, n) < n for group, n in state.sequences.items()):
            group, sequence = behind[0], other.sequences[behind[0]]
            op = next((e.op for e in other.entered if (e.group, e.sequence) == (group, sequence)), "collective")
            reason = f"each of the ranks that are there with it has entered {counted(fewer, 'collective')} more"
            return Skipped(state, op, group, sequence, reason)
    return None


class _Kind(NamedTuple):
    """The history of a rank, as far as its peers must share it."""

    numbers: tuple[int, ...]
    op_before: str | None


def _numbers(state: RankState) -> tuple[int, ...]:
    """Return how many collectives of each of its groups the rank has entered; ranks of one role have equal numbers."""
    return tuple(sorted(state.sequences.values()))


def _op_before(state: RankState) -> str | None:
    """Return the operation that the rank entered just before the collective it is in; None if that is not known."""
    if state.in_flight is None or len(state.entered) < 2:
        return None
    latest, before = state.entered[:2]
    is_latest = (latest.group, latest.sequence) == _position(state.in_flight)
    return before.op if is_latest else None


def _position(inside: InFlight | None) -> tuple[str, int] | None:
    return None if inside is None or not inside.sequence else (inside.group, inside.sequence)
