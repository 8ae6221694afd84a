"""One thing that was tried, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass

TIMEOUT_SECONDS = 3.0  # of one question; a daemon that needs longer does not do its work either


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was tried. `armed` None: it has nothing to watch here, or it is too early to tell."""

    name: str
    armed: bool | None
    found: str
    next_step: str = ""
