"""What a source returns, and what it may ask of the agent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

# Job id and rank by pid, of the ranks that live on this host as far as their processes can be seen from here.
Ranks: TypeAlias = "Callable[[], Mapping[int, tuple[str, int]]]"


class Reading(NamedTuple):
    """What was seen, and a line for each thing that had to be left out."""

    value: Any
    dropped: tuple[str, ...] = ()
