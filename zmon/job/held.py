"""Tell for how long nothing has run on GPUs that somebody holds, and what is left there.

What runs is a rank within its lease, or a kernel on one of the GPUs, whoever started it. A moment in which neither can
be told counts as one in which something ran. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

NEVER_RAN = "never_ran"  # neither a rank nor a process on the GPUs since they were allocated
ENDED = "ended"  # ranks or processes ran and have ended, and the allocation stays
HUNG = "hung"  # ranks live, and each of them is overdue
IDLE_PROCESS = "idle_process"  # a process is on the GPUs and computes nothing
UNKNOWN = "unknown"  # nothing runs; whether anything ran before the agent looked first is unknown


class HolderState(NamedTuple):
    """A holder as the agent sees it at one moment."""

    overdue_seconds: Sequence[float]  # of each rank that lives and is not done
    busy: bool | None  # a kernel runs on one of its GPUs; None: unknown
    has_process: bool  # there is a process on its GPUs
    ran: bool  # it has, or had, a rank or a process


class Idle(NamedTuple):
    """The kind of what is left on GPUs on which nothing runs, and for how long."""

    kind: str
    seconds: float


class Holding:
    """One holder, for as long as it holds GPUs. Times are seconds on one clock."""

    def __init__(self, now: float, is_new: bool) -> None:
        """`is_new`: it did not hold them the last time that the agent looked, some seconds ago."""
        self._ran_at = now
        self._ran: bool | None = False if is_new else None

    def idle(self, now: float, state: HolderState) -> Idle | None:
        """Return what is left if nothing runs there now; None if something runs, or if that is unknown."""
        if state.ran:
            self._ran = True
        if state.overdue_seconds:
            self._ran_at = now - min(state.overdue_seconds)
            return Idle(HUNG, now - self._ran_at) if self._ran_at < now else None
        if state.busy is not False:
            self._ran_at = now
            return None
        kind = IDLE_PROCESS if state.has_process else {True: ENDED, False: NEVER_RAN, None: UNKNOWN}[self._ran]
        return Idle(kind, now - self._ran_at)
