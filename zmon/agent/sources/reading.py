"""The types that sources share: the result of a read, and the ranks of this host."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

# Returns job id and rank by pid, for the ranks on this host whose processes are in this PID namespace.
Ranks: TypeAlias = "Callable[[], Mapping[int, tuple[str, int]]]"


class Reading(NamedTuple):
    """The value that a source read, and one line for each thing that it had to leave out."""

    value: Any
    dropped: tuple[str, ...] = ()
