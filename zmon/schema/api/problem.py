"""An answer that is none."""

from __future__ import annotations

import msgspec

from zmon.schema.names import SCHEMA


class Problem(msgspec.Struct, frozen=True):
    """Why there is no answer, in one line."""

    error: str
    schema: int = SCHEMA
