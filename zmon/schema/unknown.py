"""Unknown, and why: what stands in the place of a value that nobody can tell."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Unknown:
    """There is no value. The reason is one line for people."""

    reason: str
