"""The time until torch itself ends a collective that hangs, by the timeout of the default process group. Pure.

A rank has this timeout as a label (zmon/probe/hooks/world.py). Torch counts from the call that issues the collective.
zmon counts from the moment at which the rank waits in it. If the job issues the collective and goes on, that is later,
and torch ends the collective sooner than zmon says. Other groups have timeouts of their own, which are unknown.
"""

from __future__ import annotations

from collections.abc import Iterable

from zmon.schema.names import DEFAULT_GROUP
from zmon.schema.rank import RankState


def abort_seconds(ranks: Iterable[RankState]) -> float | None:
    """Return the seconds until torch ends the first collective in which a rank waits.

    None if the timeout is unknown, no rank is in a collective, or the time is over: then torch does not end it.
    """
    waiting = ((r, r.in_flight) for r in ranks if r.alive and r.in_flight and r.in_flight.group == DEFAULT_GROUP)
    seconds_left = [timeout - op.seconds for r, op in waiting if (timeout := r.collective_timeout_seconds) is not None]
    return min((seconds for seconds in seconds_left if seconds > 0), default=None)
