"""What is every rank on this host doing, is it alive, and does it make progress?

Looked at ten times a second, so a look is cheap: a listing of the directories and a few `pread`s per rank. A damaged
box is reported and left aside; it never hides the others. Not for several threads: whoever looks also asks.
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

from zmon.agent.sources.plans import Plans, TrainerPlan, left_behind
from zmon.agent.sources.rank_box import LEFT_BEHIND_SECONDS, RankBox
from zmon.agent.sources.reading import Reading
from zmon.errors import BoxError
from zmon.job.lease import Leases
from zmon.schema.api import Suspicion
from zmon.schema.plan import PLAN_FILE
from zmon.schema.rank import RankState

log = logging.getLogger("zmon.boxes")

GRACE_SECONDS = 900.0  # how long a dead rank's box stays for whoever comes to look
RETRY_NS = 5_000_000_000  # a box that could not be read is tried again
PRUNE_NS = 60_000_000_000
_SHORT_NAME = re.compile(r"zmon-[0-9a-f]{16}\.sock")


class Boxes:
    """Every box under one directory."""

    def __init__(
        self,
        root: Path,
        host: str,
        leases: Leases | None = None,
        clock: Callable[[], int] = time.monotonic_ns,
        proc: Path = Path("/proc"),
        short: Path = Path("/tmp"),  # where sockets stand whose path would be too long beside the box
    ) -> None:
        self._root, self._host, self._clock, self._proc, self._short = root, host, clock, proc, short
        self._leases = leases or Leases()
        self._open: dict[str, RankBox] = {}
        self._aside: dict[str, tuple[int, int, str]] = {}  # damaged boxes: inode, when seen, what is wrong
        self._closed: dict[str, str] = {}  # folders that may not be listed: why
        self._plans, self._plan_files = Plans(), list[str]()
        self._pruned_at: int | None = None
        self._pids: dict[int, tuple[str, int]] = {}
        self._runs: dict[str, int] = {}
        self._files: dict[Path, int] = {}

    @property
    def damaged(self) -> dict[Path, str]:
        """What is wrong with each box or plan, or folder of them, that had to be left aside."""
        return {
            **self._plans.damaged,
            **{Path(path): why for path, (_, _, why) in self._aside.items()},
            **{Path(path): why for path, why in self._closed.items()},
        }

    def read(self) -> Reading:
        """A look, as a source: whom to suspect. Once a minute what long dead ranks left is deleted."""
        suspects = self.look()
        now = self._clock()
        if self._pruned_at is None or now - self._pruned_at > PRUNE_NS:
            self._pruned_at = now
            self.prune()
        return Reading(suspects, (*self.damaged.values(), *self._hidden()))

    def _hidden(self) -> Iterator[str]:
        """A line for each job whose ranks live where the kernel shows this process nothing of them but their boxes."""
        jobs = Counter(box.identity.job_id for box in self._open.values() if box.alive and not box.pid)
        for job_id, number in sorted(jobs.items()):
            yield (
                f"{number} ranks of {job_id} live in another PID namespace: their processes, connections and control "
                "groups are not seen. Run the agent in the host's (hostPID)"
            )

    def look(self) -> frozenset[Suspicion]:
        """Look at every box once; returns whom to suspect."""
        found = dict(self._scan())
        self._plans.look(self._plan_files)
        for path, box in list(self._open.items()):
            # One whose file was deleted under a rank that lives is open still, and shows how the rank ends.
            if found.get(path, box.inode) != box.inode or (path not in found and box.over):
                self._open.pop(path).close()
        self._aside = {p: aside for p, aside in self._aside.items() if found.get(p) == aside[0]}
        now = self._clock()
        for path in {**self._open, **found}:
            if path in self._aside and now - self._aside[path][1] <= RETRY_NS:
                continue
            try:
                if path in self._open:
                    self._open[path].look()
                else:
                    self._open[path] = RankBox(Path(path), self._host, self._leases, self._clock, self._proc)
                    self._aside.pop(path, None)
            except (BoxError, OSError, ValueError) as error:
                self._leave_aside(path, found.get(path, 0), error)
        self._files = {box.path: box.inode for box in self._open.values() if box.reader is not None}
        self._pids = {
            box.pid: (box.identity.job_id, box.identity.rank) for box in self._open.values() if box.alive and box.pid
        }
        self._runs = {box.identity.run_uid: box.pid for box in self._open.values() if box.alive and box.pid}
        return frozenset(s for box in self._news() if (s := box.suspicion()))

    def ranks(self) -> Iterator[tuple[RankBox, RankState]]:
        """Every rank that can be read, with its state as of the last look."""
        for box in self._news():
            try:
                yield box, box.state()
            except (BoxError, OSError, ValueError) as error:
                self._leave_aside(str(box.path), box.inode, error)

    def close(self) -> None:
        """Let all of them go."""
        while self._open:
            self._open.popitem()[1].close()

    def plan(self, box: RankBox) -> TrainerPlan | None:
        """What that rank has told of the steps to come, if it has."""
        return self._plans.of(box.path.parent, box.identity.run_uid)

    def pids(self) -> dict[int, tuple[str, int]]:
        """Job id and rank by pid, of the ranks that lived in this PID namespace at the last look. From any thread."""
        return self._pids

    def runs(self) -> dict[str, int]:
        """Pid by run uid, of the same ranks. From any thread."""
        return self._runs

    def files(self) -> dict[Path, int]:
        """Boxes and their inodes, of ranks that live or died a moment ago, as of the last look. From any thread."""
        return self._files

    def prune(self) -> None:
        """Delete what dead ranks left, after the grace period and once none of their peers here lives."""
        living = self._living()
        for path, box in list(self._open.items()):
            gone = box.gone_seconds
            long_known = self._clock() - box.met_at > GRACE_SECONDS * 1e9
            if gone is not None and not 0 <= gone <= GRACE_SECONDS and long_known and box.start not in living:
                del self._open[path]
                with contextlib.suppress(OSError, BoxError):
                    owner = box.path.lstat().st_uid
                    box.path.unlink()
                    for left in self._left_by(box, owner):
                        left.unlink(missing_ok=True)
                    box.path.parent.rmdir()  # fails while another rank's box is in it
                    box.path.parent.parent.rmdir()
                box.close()

    def _left_by(self, box: RankBox, owner: int) -> Iterator[Path]:
        yield from self._sockets(box, owner)
        yield from _unfinished(box.path.parent)
        yield from left_behind(box.path.parent)

    def _sockets(self, box: RankBox, owner: int) -> Iterator[Path]:
        """Those that are its own: the path in a box is the job's word, and whoever prunes may be root."""
        beside, named = box.path.with_suffix(".sock"), box.socket
        for path in {beside, named}:
            if path == beside or (path.parent == self._short and _SHORT_NAME.fullmatch(path.name)):
                with contextlib.suppress(FileNotFoundError):
                    found = path.lstat()
                    if stat.S_ISSOCK(found.st_mode) and found.st_uid == owner:
                        yield path

    def _news(self) -> list[RankBox]:
        """The boxes that matter: a rank that was long dead when first seen does only while its peers here live."""
        living = self._living()
        return [box for box in self._open.values() if not box.long_dead or box.start in living]

    def _living(self) -> set[tuple[str, int, int, int]]:
        return {box.start for box in self._open.values() if box.alive}

    def _leave_aside(self, path: str, inode: int, error: Exception) -> None:
        why = _why(path, error)
        if path not in self._aside:
            log.warning("%s", why)
        self._aside[path] = (inode, self._clock(), why)
        if path in self._open:
            self._open.pop(path).close()

    def _scan(self) -> Iterator[tuple[str, int]]:
        """Boxes and their inodes, `<job>/<attempt>/rank-<n>.box`; links are not followed out of the directory. Plans
        are noted.

        Raises OSError where the directory itself may not be listed; one that is not there (yet) is empty.
        """
        closed: dict[str, str] = {}
        plans: list[str] = []
        for job in _listed(self._root):
            if job.is_dir(follow_symlinks=False):
                for attempt in _listed(job.path, closed):
                    if attempt.is_dir(follow_symlinks=False):
                        for entry in _listed(attempt.path, closed):
                            if entry.name.startswith("rank-") and entry.name.endswith(".box"):
                                yield entry.path, entry.inode()
                            elif entry.name == PLAN_FILE:
                                plans.append(entry.path)
        self._closed, self._plan_files = closed, plans


def _listed(folder: str | Path, closed: dict[str, str] | None = None) -> list[os.DirEntry[str]]:
    """What is in a folder; with `closed`, one that may not be listed is noted there and is no error."""
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except FileNotFoundError:
        return []
    except OSError as error:
        if closed is None:
            raise
        closed[str(folder)] = _why(folder, error)
        return []


def _why(path: str | Path, error: Exception) -> str:
    return f"cannot read {path}: {error.strerror}" if isinstance(error, OSError) else str(error)


def _unfinished(folder: Path) -> Iterator[Path]:
    """Boxes of ranks that died while they made them; one that starts just now takes less than a minute."""
    for path in folder.glob(".rank-*.box.*"):
        if time.time() - path.stat().st_mtime > LEFT_BEHIND_SECONDS:
            yield path
