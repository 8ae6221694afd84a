"""Find the rank that skipped a collective of one group and waits in the next collective of another group.

With several groups (tensor and data parallel) the ranks then wait in a circle: those of the first group for the rank,
and the rank, in the second group, for those. The ranks that are in the second group with it show the order: all of them
entered an operation of the skipped kind just before, and the rank did not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from zmon.schema.rank import InFlight, RankState


class Skipped(NamedTuple):
    """A collective that one rank did not enter before the next one."""

    rank: RankState
    collective: InFlight  # the skipped one, in which others wait


def skipped_collective(ranks: Sequence[RankState]) -> Skipped | None:
    """Return the collective that exactly one rank skipped; None if the order of no rank, or of several, differs."""
    skipped = [skip for rank in ranks if (skip := _skipped_by(rank, ranks))]
    return skipped[0] if len(skipped) == 1 else None


def _skipped_by(state: RankState, ranks: Sequence[RankState]) -> Skipped | None:
    own = _op_before(state)
    if own is None:
        return None
    awaiting = [
        r.in_flight
        for r in ranks
        if r.in_flight and 0 < state.sequences.get(r.in_flight.group, r.in_flight.sequence) < r.in_flight.sequence
    ]
    peers = [_op_before(r) for r in ranks if r is not state and _position(r.in_flight) == _position(state.in_flight)]
    for collective in awaiting:
        if peers and own != collective.op and all(op == collective.op for op in peers):
            return Skipped(state, collective)
    return None


def _op_before(state: RankState) -> str | None:
    """Return the operation that the rank entered just before the collective it is in; None if that is not known."""
    if state.in_flight is None or len(state.entered) < 2:
        return None
    latest, before = state.entered[:2]
    is_latest = (latest.group, latest.sequence) == _position(state.in_flight)
    return before.op if is_latest else None


def _position(inside: InFlight | None) -> tuple[str, int] | None:
    return None if inside is None or not inside.sequence else (inside.group, inside.sequence)
