"""Decide for how long the GPUs of a holder are idle, and which processes are left there. Pure.

A holder is a job, a pod or a control group to which GPUs are allocated.

The GPUs are in use while a rank is within its lease, or while a kernel of any process runs on one of the GPUs. If both
are unknown at some moment, the GPUs count as in use.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

NEVER_RAN = "never_ran"  # neither a rank nor a process on the GPUs since they were allocated
ENDED = "ended"  # ranks or processes ran and have ended, and the allocation stays
HUNG = "hung"  # ranks live, and each of them is overdue
IDLE_PROCESS = "idle_process"  # a process is on the GPUs and computes nothing
UNKNOWN = "unknown"  # nothing runs; it is unknown whether anything ran before the agent's first scan


class HolderState(NamedTuple):
    """The state of a holder at one moment, as far as its agent can observe it."""

    overdue_seconds: Sequence[float]  # of each rank that lives and is not done
    busy: bool | None  # a kernel runs on one of its GPUs; None: unknown
    has_process: bool  # there is a process on its GPUs
    ran: bool  # it has, or had, a rank or a process


class Idle(NamedTuple):
    """The kind of idle GPUs (NEVER_RAN to UNKNOWN), and the seconds for which they are idle."""

    kind: str
    seconds: float


class Holding:
    """The history of one holder, while it has GPUs. Times are seconds on one clock."""

    def __init__(self, now: float, is_new: bool) -> None:
        """`is_new`: the holder was not in the agent's last list, which is some seconds old."""
        self._ran_at = now  # the last time at which the GPUs were in use, or may have been
        self._ran: bool | None = False if is_new else None  # a rank or a process, since the allocation; None: unknown

    def idle(self, now: float, state: HolderState) -> Idle | None:
        """Record the state now. Return the kind and the idle seconds of the GPUs; None if they are or may be in use."""
        if state.ran:
            self._ran = True
        if state.overdue_seconds:
            self._ran_at = now - min(state.overdue_seconds)
            return Idle(HUNG, now - self._ran_at) if self._ran_at < now else None
        if state.busy is not False:
            self._ran_at = now
            return None
        without_process = {True: ENDED, False: NEVER_RAN, None: UNKNOWN}[self._ran]
        return Idle(IDLE_PROCESS if state.has_process else without_process, now - self._ran_at)
