"""The answer to a request that failed."""

from __future__ import annotations

import msgspec

from zmon.schema.names import SCHEMA


class Problem(msgspec.Struct, frozen=True):
    """The reason why a request failed, in one line."""

    error: str
    schema: int = SCHEMA
