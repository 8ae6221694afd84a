"""The boxes that cannot be read although a rank lives: a job that nobody watches must not look like no job.

A rank holds the lock on its box in every layout, so the lock shows that it lives even where nothing else can be read.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from zmon.box.lock import holder
from zmon.errors import BoxRefused, BoxVersion
from zmon.schema.api.agent import UnreadRank
from zmon.schema.names import JOB_ID

MAX_UNREAD = 64  # boxes of one report; the source `boxes` counts all that are set aside
_RANK = re.compile(r"rank-(\d{1,7})\.box")


class _Unread(NamedTuple):
    """A box that cannot be read."""

    kind: str
    reason: str
    since_ns: int  # monotonic
    lives: bool  # at the last try


class UnreadBoxes:
    """The boxes that were set aside, by path."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._boxes: dict[str, _Unread] = {}

    def add(self, path: str, error: Exception, reason: str) -> None:
        """Record a failed try to read a box, and look at its lock."""
        known = self._boxes.get(path)
        since = known.since_ns if known else self._clock()
        self._boxes[path] = _Unread(_kind(error), reason, since, _is_held(path))

    def retain(self, paths: Mapping[str, object]) -> None:
        """Forget the boxes that are not among these."""
        if self._boxes:
            self._boxes = {path: box for path, box in self._boxes.items() if path in paths}

    def ranks(self) -> Iterator[UnreadRank]:
        """Yield the first ranks that live and cannot be read. A box whose folder names no job is left out."""
        num_ranks = 0
        for path, box in self._boxes.items():
            job_id, name = Path(path).parts[-3], _RANK.fullmatch(Path(path).name)
            if box.lives and JOB_ID.fullmatch(job_id) and num_ranks < MAX_UNREAD:
                num_ranks += 1
                seconds = (self._clock() - box.since_ns) * 1e-9
                yield UnreadRank(job_id, int(name[1]) if name else None, box.kind, box.reason, seconds)


def _kind(error: Exception) -> str:
    if isinstance(error, BoxVersion):
        return "version"
    return "refused" if isinstance(error, BoxRefused) else "damaged"


def _is_held(path: str) -> bool:
    """Return True if a process holds the lock of this file. Closing it here releases no lock of another process."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return stat.S_ISREG(os.fstat(fd).st_mode) and holder(fd) is not None
    except OSError:
        return False
    finally:
        os.close(fd)
