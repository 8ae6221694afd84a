"""The collectives a rank has in flight, as torch's flight recorder tells them. Frozen data only."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pending:
    """One operation that was issued and is not done."""

    group: str  # backend:name of the process group: each backend of a group counts for itself
    sequence: int  # in that group, the same on every rank; of send and recv the one of their own
    op: str  # one of OPS, or torch's own word
    name: str  # as torch calls it
    num_bytes: int | None  # of the tensors handed in; where there are none, of those handed out
    sizes: tuple[tuple[int, ...], ...]  # of the same tensors, the first few
    dtypes: tuple[str, ...]
    age_seconds: float | None  # since it was issued; None: the host's clock was set meanwhile
    state: str  # scheduled, started (NCCL with timing only), timed_out


@dataclass(frozen=True, slots=True)
class Flight:
    """A rank's flight record: the oldest and the newest of what is pending, in the order it was issued, and the last
    sequence that is done."""

    pending: tuple[Pending, ...]
    num_pending: int
    last: dict[str, int]  # by group
