"""Report boxes that cannot be read although their rank lives. Otherwise an unwatched job would look like no job.

A rank holds the lock on its box in every layout, so the lock shows that it lives even where nothing else can be read.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from zmon.agent.sources.box_listing import ListedBox, reason
from zmon.box.lock import holder, opened
from zmon.errors import BoxRefused, BoxVersion
from zmon.schema.api.agent import UnreadRank
from zmon.schema.measures import NS
from zmon.schema.names import JOB_ID

RETRY_NS = 5_000_000_000  # time until a box that could not be read is tried again
MAX_UNREAD = 64  # boxes of one report; the source `boxes` counts all that are set aside
_RANK = re.compile(r"rank-(\d{1,7})\.box")


class _Unread(NamedTuple):
    """A box that cannot be read."""

    inode: int
    kind: str  # one of UNREAD_KINDS
    reason: str  # one line
    since_ns: int  # monotonic time of the first try
    tried_ns: int  # monotonic time of the last try
    lives: bool  # its rank lived at the last try


class UnreadBoxes:
    """The boxes that were set aside, by path."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self.boxes: dict[str, _Unread] = {}

    def add(self, path: str, inode: int, error: Exception) -> str:
        """Record a failed try to read a box, and look at its lock; return the reason."""
        known = self.boxes.get(path)
        now = self._clock()
        line = reason(path, error)
        self.boxes[path] = _Unread(
            inode, _kind(error), line, since_ns=known.since_ns if known else now, tried_ns=now, lives=_is_held(path)
        )
        return line

    def may_try(self, path: str) -> bool:
        """Return True if the box was not set aside, or if its last try is a while ago."""
        return path not in self.boxes or self._clock() - self.boxes[path].tried_ns > RETRY_NS

    def retain(self, listed: Mapping[str, ListedBox]) -> None:
        """Forget the boxes whose files are gone or were replaced."""
        self.boxes = {p: box for p, box in self.boxes.items() if p in listed and listed[p].inode == box.inode}

    def ranks(self) -> Iterator[UnreadRank]:
        """Yield the first living ranks whose boxes cannot be read. A box whose folder names no job is left out."""
        num_ranks = 0
        for path, box in self.boxes.items():
            job_id = Path(path).parts[-3]
            name = _RANK.fullmatch(Path(path).name)
            if box.lives and JOB_ID.fullmatch(job_id) and num_ranks < MAX_UNREAD:
                num_ranks += 1
                seconds = (self._clock() - box.since_ns) * NS
                yield UnreadRank(job_id, int(name[1]) if name else None, box.kind, box.reason, seconds)


def _kind(error: Exception) -> str:
    if isinstance(error, BoxVersion):
        return "version"
    return "refused" if isinstance(error, BoxRefused) else "damaged"


def _is_held(path: str) -> bool:
    """Return True if a process holds the lock of this file. Closing it here releases no lock of another process."""
    with suppress(OSError), opened(path) as fd:
        return stat.S_ISREG(os.fstat(fd).st_mode) and holder(fd) is not None
    return False
