"""The types and functions that sources share: the value of a read, and the reading of text files of the kernel."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

from zmon.process import ProcessId

# Returns job id and rank by process, for the ranks on this host whose processes are in this PID namespace.
Ranks: TypeAlias = "Callable[[], Mapping[ProcessId, tuple[str, int]]]"
T = TypeVar("T")


class Reading(NamedTuple):
    """The value that a source read, and one line for each thing that it had to leave out."""

    value: Any
    dropped: tuple[str, ...] = ()


def take_first(most: int, items: Sequence[T], noun: str, dropped: list[str]) -> Sequence[T]:
    """Return the first `most` items; `dropped` gets a line if there are more. `noun` names them, in the plural."""
    if len(items) > most:
        dropped.append(f"{len(items) - most} of {len(items)} {noun}: at most {most} are read")
    return items[:most]


def text_of(path: Path) -> str:
    """Return the content of a file; empty if it cannot be read, because it is switched off, forbidden, or gone."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def number_after(name: str, text: str) -> int | None:
    """Return the number on the line that begins with the name, as in `MemTotal:  123 kB` or `oom_kill 0`."""
    line = re.search(rf"^{name}:?[ \t]+(\d+)", text, re.M)
    return int(line[1]) if line else None
