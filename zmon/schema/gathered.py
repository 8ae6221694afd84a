"""The rows that the hub gathers from the agents about the ranks of a stalled job. Frozen data only."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import UNSET, UnsetType


class RankStack(msgspec.Struct, frozen=True):
    """The stack of one rank, or why there is none. If its agent did not answer, only `stack_error` is set."""

    job_id: str | UnsetType = UNSET
    rank: int | UnsetType = UNSET
    run_uid: str | UnsetType = UNSET
    alive: bool | UnsetType = UNSET  # False beside a stack: the process has ended since the stack was read
    pid: int | UnsetType | None = UNSET  # as the agent sees it
    wchan: str | UnsetType | None = UNSET  # the kernel function in which it sleeps
    stack: str | UnsetType | None = UNSET  # Python stacks of all threads
    stack_error: str | UnsetType | None = UNSET
    schema: int | UnsetType = UNSET

    @property
    def when(self) -> str:
        """When the stack was read, for the end of a heading; empty: the process has not ended since then."""
        return " before it ended" if self.stack and self.alive is False else ""


class StderrTail(msgspec.Struct, frozen=True):
    """The last lines of one rank's standard error, or why there are none."""

    text: str | None
    error: str | None
    path: str | None
    shared: bool  # True: other ranks of the host write to the same file


class PendingRow(msgspec.Struct, frozen=True):
    """One collective in flight; zmon.schema.flight.PendingCollective explains the fields."""

    group: str
    sequence: int
    op: str
    num_bytes: int | None
    sizes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    age_seconds: float | None
    state: str


class FlightRow(msgspec.Struct, frozen=True):
    """The collectives that one rank has in flight, or why they are not known."""

    pending: tuple[PendingRow, ...] | UnsetType = UNSET  # the oldest ones
    num_pending: int | UnsetType = UNSET
    last: Mapping[str, int] | UnsetType = UNSET  # group → the last sequence that is done
    error: str | UnsetType = UNSET
