"""Decodes the live words of a box: state, last two collectives, and collectives entered in each process group.

The rank changes them while they are read, one word at a time. Each word is checked by another one (see layout). Words
that do not match are not returned. The number of an activity, a phase or an op may be one that only a newer zmon knows.
"""

from __future__ import annotations

from typing import NamedTuple

from zmon.box import layout
from zmon.box.layout import Collective, PlaceInStep


class DatedState(NamedTuple):
    """A state and its start, in nanoseconds of the host's monotonic clock."""

    since: int
    state: PlaceInStep


def state(live: tuple[int, ...]) -> DatedState | None:
    """Return the newer valid state of the two slots; None if neither is valid."""
    newest = None
    for slot in layout.STATE_SLOTS:
        since = live[slot]
        packed, remainder = divmod(since + live[slot + 1] - layout.STATE_KEY, layout.STATE_PRIME)
        if since < 0 or remainder or not 0 <= packed < layout.STATE_LIMIT:
            continue
        place = layout.unpack_state(packed)
        is_group = place.group < layout.MAX_GROUPS or place.group == layout.NONE
        if is_group and (newest is None or since > newest.since):
            newest = DatedState(since, place)
    return newest


def entered(live: tuple[int, ...], index: int) -> Collective | None:
    """Return the collective at `index`; None if there is none, or in the middle of a write."""
    word = _number(live, index)
    if word is None:
        return None
    totals = counts(live)
    collective = layout.unpack_collective(word, totals)
    group = collective.group
    is_known = group == layout.NONE or (group < layout.MAX_GROUPS and totals[group] is not None)
    return collective if collective.op != layout.NONE and is_known else None


def counts(live: tuple[int, ...]) -> list[int | None]:
    """Return the number of collectives entered so far, by group; None for one in the middle of a write."""
    return [_number(live, layout.SEQUENCE + 2 * group) for group in range(layout.MAX_GROUPS)]


def _number(live: tuple[int, ...], index: int) -> int | None:
    return live[index] if live[index] == ~live[index + 1] and live[index] >= 0 else None
