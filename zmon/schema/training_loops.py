"""The loops of a rank's code in which its training steps end, as the rank notes them in its box.

A rank that is outside all of them takes no further step before it enters a loop again: it evaluates, saves or reports
after its training. This module uses the standard library only, because ranks import it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

LOOPS_BYTES = 2048  # of all loops of a rank as text; a loop takes about 80
_MAX_LINE = 500  # letters, as in faulthandler (Python/traceback.c)
_LINE = re.compile(r"(?P<first>\d+)-(?P<last>\d+) (?P<function>\S+) (?P<path>\S.*)")


class TrainingLoop(NamedTuple):
    """One loop: the lines of a function between which it repeats."""

    path: str  # of the file, as Python knows it
    function: str
    first_line: int
    last_line: int

    def has(self, path: str, function: str, line: int) -> bool:
        """Return True if a frame at this line is in the loop."""
        return (self.path, self.function) == (path, function) and self.first_line <= line <= self.last_line


def as_text(loops: Sequence[TrainingLoop]) -> str:
    """Return the loops as text, a line each; empty, which means unknown, if they do not fit or are not plain ASCII.

    faulthandler cuts long paths and escapes other characters, so that the frames would not be those of the loop.
    """
    lines = [f"{loop.first_line}-{loop.last_line} {loop.function} {loop.path}" for loop in loops]
    text = "\n".join(lines)
    is_plain = text.isascii() and all(line.isprintable() and len(line) < _MAX_LINE for line in lines)
    return text if is_plain and len(text) < LOOPS_BYTES and from_text(text) == tuple(loops) else ""


def from_text(text: str) -> tuple[TrainingLoop, ...]:
    """Return the loops in a text of `as_text`; none if any line is damaged, because a loop is missing then."""
    matches = [_LINE.fullmatch(line) for line in text.splitlines()]
    loops = [TrainingLoop(m["path"], m["function"], int(m["first"]), int(m["last"])) for m in matches if m]
    return tuple(loops) if len(loops) == len(matches) else ()
