"""Decodes the live words of a box: state, last two collectives, and collectives entered in each process group.

The rank changes them while they are read, one word at a time. Each word is checked by another one (see layout). Words
that do not match are not returned. The number of an activity, a phase or an op may be one that only a newer zmon knows.
"""

from __future__ import annotations

from zmon.box import layout


def state(live: tuple[int, ...]) -> tuple[int, int, int, int, int] | None:
    """Return since, activity, phase, op and group of the newer valid slot; None if neither is valid."""
    newest = None
    for slot in layout.STATE_SLOTS:
        since = live[slot]
        packed, remainder = divmod(since + live[slot + 1] - layout.STATE_KEY, layout.STATE_PRIME)
        if since < 0 or remainder or not 0 <= packed < layout.STATE_LIMIT:
            continue
        activity, phase, op, group = layout.unpacked(packed)
        if (group < layout.MAX_GROUPS or group == layout.NONE) and (newest is None or since > newest[0]):
            newest = since, activity, phase, op, group
    return newest


def entered(live: tuple[int, ...], index: int) -> tuple[int, int, int, int] | None:
    """Return op, group, sequence and bytes of the collective at `index`; None in the middle of a write."""
    word, totals = _number(live, index), counts(live)
    if word is None:
        return None
    collective = layout.entered(word, totals)
    op, group, *_ = collective
    is_known = group == layout.NONE or (group < layout.MAX_GROUPS and totals[group] is not None)
    return collective if op != layout.NONE and is_known else None


def counts(live: tuple[int, ...]) -> list[int | None]:
    """Return the number of collectives entered so far, by group; None for one in the middle of a write."""
    return [_number(live, layout.SEQUENCE + 2 * group) for group in range(layout.MAX_GROUPS)]


def _number(live: tuple[int, ...], index: int) -> int | None:
    return live[index] if live[index] == ~live[index + 1] and live[index] >= 0 else None
