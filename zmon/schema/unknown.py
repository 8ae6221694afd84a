"""A value that is unknown, with the reason."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Unknown:
    """Stands in the place of a value that is unknown. The reason is one line for people."""

    reason: str
