"""List the files of black boxes, `<root>/<job>/<attempt>/rank-<n>.box`, and the plans beside them.

Symbolic links are not followed, so nothing outside the directories is read. All below a job's directory belongs to the
owner of that directory. The listing reads a limited number of entries of each tenant (a pod, or else a user of the
node), so a user with a million files slows down nobody else.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from zmon.agent.sources.box_roots import Root, entries_of
from zmon.format import plain
from zmon.schema.plan import PLAN_FILE

# A job of 8 ranks that restarts every 2 s for 15 minutes, until the first boxes are deleted, leaves 8,000 files.
MAX_ENTRIES = 8192


class ListedBox(NamedTuple):
    """A file with the name of a box."""

    path: str
    inode: int
    owner: int  # of its job's directory
    tenant: str  # the user or pod in whose share of the limits the box counts


class Listing:
    """The boxes and plans in all directories of boxes at one moment."""

    def __init__(self, roots: Iterable[Root]) -> None:
        """List the directories; a missing one is empty. Raises OSError if one that the site named cannot be listed."""
        self.plans: list[str] = []  # paths
        self.unlistable: dict[str, str] = {}  # folders that cannot be listed, with the reason
        self._num_entries: Counter[str] = Counter()  # that were read, by tenant
        self.boxes = {box.path: box for root in roots for box in self._boxes_in(root)}

    @property
    def problems(self) -> tuple[str, ...]:
        """A line for each tenant with more files than the limit."""
        return tuple(
            f"{tenant} has more than {MAX_ENTRIES:,} files in its box directories: zmon ignores the others"
            for tenant, number in sorted(self._num_entries.items())
            if number > MAX_ENTRIES
        )

    def _boxes_in(self, root: Root) -> Iterator[ListedBox]:
        """Yield the boxes in a directory of boxes, and note the plans beside them."""
        for job in self._jobs(root):
            try:
                if not job.is_dir(follow_symlinks=False):
                    continue
                owner = job.stat(follow_symlinks=False).st_uid
            except OSError:
                continue  # it was removed meanwhile
            if root.owner not in (None, owner):
                self.unlistable[job.path] = f"{job.path} belongs to uid {owner}, its directory to uid {root.owner}"
                continue
            tenant = root.tenant(owner)
            for attempt in self._entries(job.path, tenant):
                if attempt.is_dir(follow_symlinks=False):
                    for entry in self._entries(attempt.path, tenant):
                        if entry.name.startswith("rank-") and entry.name.endswith(".box"):
                            yield ListedBox(entry.path, entry.inode(), owner, tenant)
                        elif entry.name == PLAN_FILE:
                            self.plans.append(entry.path)

    def _jobs(self, root: Root) -> list[os.DirEntry[str]]:
        """Return the entries of a directory of boxes. Raises OSError if the site has named this directory."""
        try:
            return entries_of(root.path, MAX_ENTRIES)
        except OSError as error:
            if root.is_explicit:
                raise
            self.unlistable[root.path] = reason(root.path, error)
            return []

    def _entries(self, folder: str, tenant: str) -> list[os.DirEntry[str]]:
        """Return the entries of a folder, up to the limit of its tenant. Note the reason if it cannot be listed."""
        try:
            entries = entries_of(folder, MAX_ENTRIES + 1 - self._num_entries[tenant])
        except OSError as error:
            self.unlistable[folder] = reason(folder, error)
            return []
        self._num_entries[tenant] += len(entries)
        return entries


def reason(path: str | Path, error: Exception, verb: str = "read") -> str:
    """Return the line that says why zmon cannot read a file or folder, or cannot do what `verb` names."""
    return plain(f"cannot {verb} {path}: {error.strerror}" if isinstance(error, OSError) else str(error))
