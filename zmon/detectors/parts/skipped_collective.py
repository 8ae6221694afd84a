"""Find the rank that skipped a collective of one group and waits in the next collective of another group.

With several groups (tensor and data parallel) the ranks then wait in a circle: those of the first group for the rank,
and the rank, in the second group, for those. The ranks that are in the second group with it show what it skipped. All
of them entered an operation of the skipped kind just before, and the rank did not. Or all of them entered the same
number of collectives, and the rank fewer, while it has passed another rank in one group and is behind it in a second
one: ranks that run the same program never pass each other like this.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from zmon.format import counted
from zmon.schema.rank import InFlight, RankState


class Skipped(NamedTuple):
    """A collective that one rank did not enter before the next one, and in which others wait."""

    rank: RankState
    op: str
    group: str
    sequence: int
    reason: str  # the end of a sentence about the rank


def skipped_collective(ranks: Sequence[RankState]) -> Skipped | None:
    """Return the collective that exactly one rank skipped; None if the order of no rank, or of several, differs."""
    for rule in (_by_order, _by_number):
        skipped = [skip for rank in ranks if (skip := rule(rank, ranks))]
        if skipped:
            return skipped[0] if len(skipped) == 1 else None
    return None


def _by_order(state: RankState, ranks: Sequence[RankState]) -> Skipped | None:
    """Return what the rank skipped if the ranks in the same collective entered it just before, and the rank did not."""
    own = _op_before(state)
    if own is None:
        return None
    awaiting = [
        r.in_flight
        for r in ranks
        if r.in_flight and 0 < state.sequences.get(r.in_flight.group, r.in_flight.sequence) < r.in_flight.sequence
    ]
    peers = [_op_before(r) for r in _peers(state, ranks)]
    for inside in awaiting:
        if peers and own != inside.op and all(op == inside.op for op in peers):
            reason = f"the ranks that are there with it entered {inside.op} before"
            return Skipped(state, inside.op, inside.group, inside.sequence, reason)
    return None


def _by_number(state: RankState, ranks: Sequence[RankState]) -> Skipped | None:
    """Return what the rank skipped if it entered fewer collectives than all ranks that are in the same one."""
    peers = _peers(state, ranks)
    totals = {(sum(r.sequences.values()), _op_before(r)) for r in peers}
    if len(totals) != 1:
        return None  # nobody is there with it, or those who are there have different roles
    fewer = sum(peers[0].sequences.values()) - sum(state.sequences.values())
    if fewer <= 0:
        return None
    for other in ranks:
        behind = [group for group, count in other.sequences.items() if 0 < state.sequences.get(group, count) < count]
        if behind and any(0 < other.sequences.get(group, n) < n for group, n in state.sequences.items()):
            group, sequence = behind[0], other.sequences[behind[0]]
            op = next((e.op for e in other.entered if (e.group, e.sequence) == (group, sequence)), "collective")
            reason = f"each of the ranks that are there with it has entered {counted(fewer, 'collective')} more"
            return Skipped(state, op, group, sequence, reason)
    return None


def _peers(state: RankState, ranks: Sequence[RankState]) -> list[RankState]:
    """Return the other ranks that are in the same collective as this one."""
    position = _position(state.in_flight)
    return [r for r in ranks if position and r is not state and _position(r.in_flight) == position]


def _op_before(state: RankState) -> str | None:
    """Return the operation that the rank entered just before the collective it is in; None if that is not known."""
    if state.in_flight is None or len(state.entered) < 2:
        return None
    latest, before = state.entered[:2]
    is_latest = (latest.group, latest.sequence) == _position(state.in_flight)
    return before.op if is_latest else None


def _position(inside: InFlight | None) -> tuple[str, int] | None:
    return None if inside is None or not inside.sequence else (inside.group, inside.sequence)
