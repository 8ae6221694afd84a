"""Scan the black boxes of all ranks on this host, and suspect ranks that are dead, stopped or overdue.

The agent scans ten times a second, so a scan is cheap: a listing of the folders and a few `pread`s per rank. A damaged
box is reported and set aside; it never hides the others. Only one thread may scan and read ranks. The methods marked
“Any thread” may be called from any thread.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import stat
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from zmon.agent.sources.plans import Plans, TrainerPlan, leftover_plans
from zmon.agent.sources.rank_box import LEFT_BEHIND_SECONDS, RankBox
from zmon.agent.sources.reading import Reading
from zmon.agent.sources.unread_boxes import UnreadBoxes
from zmon.errors import BoxError
from zmon.job.lease import Leases
from zmon.job.start_times import StartTimes
from zmon.plain import plain
from zmon.schema.api import Suspicion
from zmon.schema.api.agent import UnreadRank
from zmon.schema.plan import PLAN_FILE
from zmon.schema.rank import RankState

log = logging.getLogger("zmon.boxes")

GRACE_SECONDS = 900.0  # how long the box of a dead rank stays for people to read
RETRY_NS = 5_000_000_000  # time until a box that could not be read is tried again
PRUNE_NS = 60_000_000_000  # time between two deletions of old boxes
_SHORT_NAME = re.compile(r"zmon-[0-9a-f]{16}\.sock")


class Boxes:
    """All boxes under one folder."""

    def __init__(
        self,
        root: Path,
        host: str,
        leases: Leases | None = None,
        clock: Callable[[], int] = time.monotonic_ns,
        proc: Path = Path("/proc"),
        socket_dir: Path = Path("/tmp"),  # folder of sockets whose path beside the box would be too long
    ) -> None:
        self._root, self._host, self._clock, self._proc, self._socket_dir = root, host, clock, proc, socket_dir
        self._leases, self._starts = leases or Leases(), StartTimes()
        self._open: dict[str, RankBox] = {}
        self._damaged_boxes: dict[str, tuple[int, int, str]] = {}  # damaged boxes: inode, time of the last try, reason
        self._unread = UnreadBoxes(clock)  # the same boxes, as ranks that may live
        self._unlistable: dict[str, str] = {}  # folders that cannot be listed, with the reason
        self._plans, self._plan_files = Plans(), list[str]()
        self._pruned_at: int | None = None
        self._pids: dict[int, tuple[str, int]] = {}
        self._runs: dict[str, int] = {}
        self._files: dict[Path, int] = {}

    @property
    def damaged(self) -> dict[Path, str]:
        """The reason for each box, plan or folder that was set aside."""
        return {
            **self._plans.damaged,
            **{Path(path): reason for path, (_, _, reason) in self._damaged_boxes.items()},
            **{Path(path): reason for path, reason in self._unlistable.items()},
        }

    def read(self) -> Reading:
        """Scan, and delete the files of dead ranks once a minute. The value is the set of suspects."""
        suspects = self.scan()
        now = self._clock()
        if self._pruned_at is None or now - self._pruned_at > PRUNE_NS:
            self._pruned_at = now
            self.prune()
        return Reading(suspects, (*self.damaged.values(), *self._hidden_jobs()))

    def _hidden_jobs(self) -> Iterator[str]:
        """Yield a line for each job whose ranks live in another PID namespace, where only their boxes can be read."""
        jobs = Counter(box.identity.job_id for box in self._open.values() if box.alive and not box.pid)
        for job_id, number in sorted(jobs.items()):
            yield (
                f"{number} ranks of {job_id} live in another PID namespace: the agent cannot read their processes, "
                "connections and control groups. Run the agent in the host's PID namespace (hostPID)"
            )

    def scan(self) -> frozenset[Suspicion]:
        """Look at every box once, and return the suspects."""
        inodes = dict(self._find_boxes())
        self._plans.refresh(self._plan_files)
        for path, box in list(self._open.items()):
            # If the file of a living rank was deleted, the box stays open and still shows how the rank ends.
            if inodes.get(path, box.inode) != box.inode or (path not in inodes and box.expired):
                self._open.pop(path).close()
        self._damaged_boxes = {
            path: entry for path, entry in self._damaged_boxes.items() if inodes.get(path) == entry[0]
        }
        self._unread.retain(self._damaged_boxes)
        now = self._clock()
        for path in {**self._open, **inodes}:
            if path in self._damaged_boxes and now - self._damaged_boxes[path][1] <= RETRY_NS:
                continue
            try:
                if path in self._open:
                    self._open[path].refresh()
                else:
                    self._open[path] = RankBox(
                        Path(path), self._host, self._leases, self._clock, self._proc, self._starts
                    )
                    self._damaged_boxes.pop(path, None)
            except (BoxError, OSError, ValueError) as error:
                self._set_aside(path, inodes.get(path, 0), error)
        self._files = {box.path: box.inode for box in self._open.values() if box.reader is not None}
        self._pids = {
            box.pid: (box.identity.job_id, box.identity.rank) for box in self._open.values() if box.alive and box.pid
        }
        self._runs = {box.identity.run_uid: box.pid for box in self._open.values() if box.alive and box.pid}
        return frozenset(s for box in self._relevant() if (s := box.suspicion()))

    def ranks(self) -> Iterator[tuple[RankBox, RankState]]:
        """Yield every rank that can be read, with its state as of the last scan."""
        for box in self._relevant():
            try:
                yield box, box.state()
            except (BoxError, OSError, ValueError) as error:
                self._set_aside(str(box.path), box.inode, error)

    def unread_ranks(self) -> tuple[UnreadRank, ...]:
        """Return the first ranks that live, and whose boxes could not be read at the last try."""
        self._unread.retain(self._damaged_boxes)
        return tuple(self._unread.ranks())

    def box(self, run_uid: str) -> RankBox | None:
        """Return the box of this start of a rank, or None if it is not open any more."""
        return next((box for box in self._open.values() if box.identity.run_uid == run_uid), None)

    def close(self) -> None:
        """Close all boxes."""
        while self._open:
            self._open.popitem()[1].close()

    def plan(self, box: RankBox) -> TrainerPlan | None:
        """Return the plan that this rank wrote, or None."""
        return self._plans.find(box.path.parent, box.identity.run_uid)

    def pids(self) -> dict[int, tuple[str, int]]:
        """Return job id and rank by pid, for ranks alive in this PID namespace at the last scan. Any thread."""
        return self._pids

    def runs(self) -> dict[str, int]:
        """Return the pid by run uid, for the same ranks. Any thread."""
        return self._runs

    def files(self) -> dict[Path, int]:
        """Return the inode by box, for ranks alive or just dead at the last scan. Any thread."""
        return self._files

    def prune(self) -> None:
        """Delete the files of ranks that died GRACE_SECONDS ago, once no rank of their launch lives on this host."""
        living = self._living_launches()
        for path, box in list(self._open.items()):
            gone = box.gone_seconds
            opened_long_ago = self._clock() - box.opened_at > GRACE_SECONDS * 1e9
            if gone is not None and not 0 <= gone <= GRACE_SECONDS and opened_long_ago and box.launch not in living:
                del self._open[path]
                with contextlib.suppress(OSError, BoxError):
                    owner = box.path.lstat().st_uid
                    box.path.unlink()
                    for leftover in self._leftovers(box, owner):
                        leftover.unlink(missing_ok=True)
                    box.path.parent.rmdir()  # fails while it has another rank's box
                    box.path.parent.parent.rmdir()
                box.close()

    def _leftovers(self, box: RankBox, owner: int) -> Iterator[Path]:
        yield from self._sockets(box, owner)
        yield from _unfinished_boxes(box.path.parent)
        yield from leftover_plans(box.path.parent)

    def _sockets(self, box: RankBox, owner: int) -> Iterator[Path]:
        """Yield the sockets that belong to this box.

        The job wrote the path in the box, and this process may be root, so the path is checked before it is deleted.
        """
        beside, named = box.path.with_suffix(".sock"), box.socket
        for path in {beside, named}:
            if path == beside or (path.parent == self._socket_dir and _SHORT_NAME.fullmatch(path.name)):
                with contextlib.suppress(FileNotFoundError):
                    status = path.lstat()
                    if stat.S_ISSOCK(status.st_mode) and status.st_uid == owner:
                        yield path

    def _relevant(self) -> list[RankBox]:
        """Return all boxes, except long dead ones (see `RankBox.long_dead`) whose launch has no living rank."""
        living = self._living_launches()
        return [box for box in self._open.values() if not box.long_dead or box.launch in living]

    def _living_launches(self) -> set[tuple[str, int, int, int]]:
        return {box.launch for box in self._open.values() if box.alive}

    def _set_aside(self, path: str, inode: int, error: Exception) -> None:
        reason = _reason(path, error)
        if path not in self._damaged_boxes:
            log.warning("%s", reason)
        self._damaged_boxes[path] = (inode, self._clock(), reason)
        self._unread.add(path, error, reason)
        if path in self._open:
            self._open.pop(path).close()

    def _find_boxes(self) -> Iterator[tuple[str, int]]:
        """Yield each box, `<job>/<attempt>/rank-<n>.box`, and its inode; note the plans beside them.

        Symbolic links are not followed, so nothing outside the folder is read. A missing root folder counts as empty;
        one that cannot be listed raises OSError.
        """
        unlistable: dict[str, str] = {}
        plans: list[str] = []
        for job in _entries(self._root):
            if job.is_dir(follow_symlinks=False):
                for attempt in _entries(job.path, unlistable):
                    if attempt.is_dir(follow_symlinks=False):
                        for entry in _entries(attempt.path, unlistable):
                            if entry.name.startswith("rank-") and entry.name.endswith(".box"):
                                yield entry.path, entry.inode()
                            elif entry.name == PLAN_FILE:
                                plans.append(entry.path)
        self._unlistable, self._plan_files = unlistable, plans


def _entries(folder: str | Path, unlistable: dict[str, str] | None = None) -> list[os.DirEntry[str]]:
    """Return the entries of a folder. If it cannot be listed, note it in `unlistable` if given, or raise OSError."""
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except FileNotFoundError:
        return []
    except OSError as error:
        if unlistable is None:
            raise
        unlistable[str(folder)] = _reason(folder, error)
        return []


def _reason(path: str | Path, error: Exception) -> str:
    return plain(f"cannot read {path}: {error.strerror}" if isinstance(error, OSError) else str(error))


def _unfinished_boxes(folder: Path) -> Iterator[Path]:
    """Yield unfinished boxes whose ranks died while they made them; a living rank needs less than a minute."""
    for path in folder.glob(".rank-*.box.*"):
        if time.time() - path.stat().st_mtime > LEFT_BEHIND_SECONDS:
            yield path
