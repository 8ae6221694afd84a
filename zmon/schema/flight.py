"""The collectives that a rank has in flight, from torch's flight recorder. Frozen data only."""

from __future__ import annotations

from dataclasses import dataclass

from zmon.schema.limits import Seconds, Whole


@dataclass(frozen=True, slots=True)
class PendingCollective:
    """One operation that was issued and is not done; torch calls it pending."""

    group: str  # backend:name of the process group; each backend of a group has its own count
    sequence: Whole  # the same on every rank of the group; send and recv are counted separately
    op: str  # one of OPS, or torch's own word
    name: str  # torch's name for it
    num_bytes: Whole | None  # size of the input tensors; if there are none, of the output tensors
    sizes: tuple[tuple[Whole, ...], ...]  # shapes of the first few of these tensors
    dtypes: tuple[str, ...]
    age_seconds: Seconds | None  # since it was issued; None: the host's clock was set in between
    state: str  # scheduled, started (NCCL with timing only), timed_out


@dataclass(frozen=True, slots=True)
class FlightRecord:
    """The flight record of a rank.

    `pending` has the oldest and the newest of its pending operations, in the order in which they were issued. `last` is
    the last completed sequence of each group.
    """

    pending: tuple[PendingCollective, ...]
    num_pending: Whole
    last: dict[str, Whole]  # group → sequence
