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


def listed(names: list[str], shown: int = 8) -> str:
    """The first few, and how many more there are."""
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more


def counted(number: int, what: str) -> str:
    """1 agent, 2 agents."""
    return f"{number} {what}{'' if number == 1 else 's'}"
