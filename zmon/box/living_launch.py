"""The living ranks under a job id on this host, so that two launches do not mix in one job.

A rank reads them before it makes its box, and holds the lock of the directory of boxes until its box is published. So
all living boxes of a job belong to one launch. The exception is the process that started the launch: it may have the
box of an earlier launch. Ranks import this module, so it reads only identities.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from zmon.box import layout
from zmon.box.identity import Identity, unpacked_identity
from zmon.box.lock import holder, lock_folder, opened
from zmon.box.versions import CURRENT

_LOCK_SECONDS = 5.0  # a rank makes its box in some milliseconds; after this time it goes on without the lock


@contextlib.contextmanager
def creation_lock(root: Path) -> Iterator[None]:
    """Let no other rank of this user make a box meanwhile; without the directory there is no lock and no box."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # there is no directory, or its file system has no locks
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock_folder(stack.enter_context(opened(root, os.O_DIRECTORY, follow=True)), _LOCK_SECONDS)
        yield


def living_ranks(job: Path) -> Iterator[Identity]:
    """Yield the identities of the living ranks in the folder of a job, as far as they can be read."""
    with contextlib.suppress(OSError):
        for path in job.glob("*/rank-*.box"):
            with contextlib.suppress(OSError, ValueError), opened(path) as fd:
                if holder(fd) is not None and (identity := _identity(fd)):
                    yield identity


def _identity(fd: int) -> Identity | None:
    """Return the identity in a box; None if the box is of another version, or damaged."""
    prefix = os.pread(fd, layout.PREFIX.size, 0)
    if len(prefix) < layout.PREFIX.size:
        return None
    _, version, _, _, seed = layout.PREFIX.unpack(prefix)
    if version != CURRENT.version:
        return None
    values = CURRENT.identity.read(fd, seed)
    return None if values is None else unpacked_identity(values)
