"""The hub's answer about the ends of launches."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from zmon.schema.ended_launch import EndedLaunch
from zmon.schema.names import SCHEMA


class EndsRequest(msgspec.Struct, frozen=True):
    """`GET /api/v1/ends`."""

    job_id: str | None = None  # None: of every job
    seconds: float = -1.0  # only ends of the last so many seconds; negative: all that the hub knows
    limit: int = 200  # the newest ones; negative: all


class EndList(msgspec.Struct, frozen=True):
    """Ends of launches, newest first."""

    ends: Sequence[EndedLaunch]
    num_ends: int  # that match the request, also those beyond the limit
    schema: int = SCHEMA
