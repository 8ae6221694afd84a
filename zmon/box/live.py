"""What the live words of a box say: state, the last two collectives, how many each process group has come to.

They change under the reader, one word at a time; each is checked by another (see layout), and what does not check is
not told.
"""

from __future__ import annotations

from zmon.box import layout
from zmon.schema.names import ACTIVITIES, OPS, PHASES


def state(live: tuple[int, ...]) -> tuple[int, int, int, int, int] | None:
    """Since when the rank is in which activity, phase, op and group: the newer slot of those that check."""
    newest = None
    for at in layout.STATE_SLOTS:
        since = live[at]
        packed, rest = divmod(since + live[at + 1] - layout.STATE_KEY, layout.STATE_PRIME)
        if since < 0 or rest or not 0 <= packed < layout.STATE_LIMIT:
            continue
        activity, phase, op, group = layout.unpacked(packed)
        known = activity < len(ACTIVITIES) and phase < len(PHASES) and (op < len(OPS) or op == layout.NONE)
        if known and (group < layout.MAX_GROUPS or group == layout.NONE) and (newest is None or since > newest[0]):
            newest = since, activity, phase, op, group
    return newest


def entered(live: tuple[int, ...], at: int) -> tuple[int, int, int, int] | None:
    """Op, group, sequence, bytes; None in the middle of a write."""
    word, so_far = _number(live, at), counts(live)
    if word is None:
        return None
    found = layout.entered(word, so_far)
    op, group, *_ = found
    known = op < len(OPS) and (group == layout.NONE or (group < layout.MAX_GROUPS and so_far[group] is not None))
    return found if known else None


def counts(live: tuple[int, ...]) -> list[int | None]:
    """Collectives entered so far, by group; None in the middle of a write."""
    return [_number(live, layout.SEQUENCE + 2 * group) for group in range(layout.MAX_GROUPS)]


def _number(live: tuple[int, ...], at: int) -> int | None:
    return live[at] if live[at] == ~live[at + 1] and live[at] >= 0 else None
