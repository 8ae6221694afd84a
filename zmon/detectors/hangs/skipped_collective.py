"""Find the rank that skipped a collective of one group and waits in the next collective of another group.

With several groups (tensor and data parallel) the ranks then wait in a circle. The ranks of the first group wait for
the rank that skipped, and this rank waits for them in the second group. Its peers, the ranks that are in the second
group's collective with it, show what it skipped:

- By order: each peer entered an operation of the skipped kind just before, and the rank did not.
- By number: all peers entered equally many collectives, and the rank fewer. In addition, the rank is ahead of another
  rank in one group and behind it in a second group. Ranks that run the same program never pass each other like this.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from zmon.format import counted
from zmon.schema.rank import InFlight, RankState

# A rank that skipped collectives lacks at most one per this many steps. A rank of another role, whose steps have fewer
# collectives, lacks at least one in each step.
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
        self._pasts: defaultdict[tuple[str, int], Counter[_Past]] = defaultdict(Counter)  # by position
        # By group the collectives in which ranks are, each with the first rank's place in `ranks`.
        self._collectives: defaultdict[str, dict[InFlight, int]] = defaultdict(dict)
        for place, state in enumerate(ranks):
            if state.in_flight is not None and (position := _position(state.in_flight)):
                self._pasts[position][_past(state)] += 1
                collective = replace(state.in_flight, num_bytes=0, seconds=0.0)
                self._collectives[collective.group].setdefault(collective, place)

    def pasts_of_peers(self, state: RankState) -> set[_Past]:
        """Return the pasts of the other ranks that are in the same collective as this rank."""
        position = _position(state.in_flight)
        return set() if position is None else set(self._pasts[position] - Counter([_past(state)]))

    def missed(self, state: RankState) -> list[InFlight]:
        """Return the collectives in which ranks are, and which this rank, a member of the group, has not entered."""
        first_places: dict[InFlight, int] = {}
        for group, count in state.sequences.items():
            if count > 0 and group in self._collectives:
                collectives = self._collectives[group].items()
                first_places |= {collective: place for collective, place in collectives if collective.sequence > count}
        return sorted(first_places, key=first_places.__getitem__)


def _by_order(state: RankState, places: _Places) -> Skipped | None:
    """Return what the rank skipped if the ranks in the same collective entered it just before, and the rank did not."""
    before = _op_before(state)
    if before is None:
        return None
    ops = {past.op_before for past in places.pasts_of_peers(state)}
    for missed in places.missed(state):
        if before != missed.op and ops == {missed.op}:
            reason = f"the ranks that are there with it entered {missed.op} before"
            return Skipped(state, missed.op, missed.group, missed.sequence, reason)
    return None


def _by_number(state: RankState, places: _Places) -> Skipped | None:
    """Return what the rank skipped if it entered fewer collectives than all ranks that are in the same one."""
    pasts = places.pasts_of_peers(state)
    if len(pasts) != 1:
        return None  # no peer is there, or the peers have different roles
    (peers,) = pasts
    past = _past(state)
    num_fewer = sum(peers.counts) - sum(past.counts)
    if len(peers.counts) != len(past.counts) or num_fewer <= 0 or num_fewer * _STEPS_PER_SKIP > state.step:
        return None  # it has another role, in which a step has fewer collectives
    for other in places.ranks:
        behind = _groups_behind(state, other)
        if behind and _groups_behind(other, state):
            group = behind[0]
            sequence = other.sequences[group]
            op = next((e.op for e in other.entered if (e.group, e.sequence) == (group, sequence)), "collective")
            reason = f"each of the ranks that are there with it has entered {counted(num_fewer, 'collective')} more"
            return Skipped(state, op, group, sequence, reason)
    return None


def _groups_behind(state: RankState, other: RankState) -> list[str]:
    """Return the groups that two ranks share, and in which the first has entered fewer collectives than the other."""
    return [group for group, count in other.sequences.items() if 0 < state.sequences.get(group, count) < count]


class _Past(NamedTuple):
    """The part of what a rank has entered that must be equal on its peers."""

    counts: tuple[int, ...]  # of each of its groups, sorted; ranks of one role have equal counts
    op_before: str | None


def _past(state: RankState) -> _Past:
    return _Past(tuple(sorted(state.sequences.values())), _op_before(state))


def _op_before(state: RankState) -> str | None:
    """Return the operation that the rank entered just before the collective it is in; None if that is not known."""
    if state.in_flight is None or len(state.entered) < 2:
        return None
    latest, before = state.entered[:2]
    is_latest = (latest.group, latest.sequence) == _position(state.in_flight)
    return before.op if is_latest else None


def _position(collective: InFlight | None) -> tuple[str, int] | None:
    return None if collective is None or not collective.sequence else (collective.group, collective.sequence)
