"""Scan the black boxes of all ranks on this host, and suspect ranks that are dead, stopped or overdue.

The agent scans ten times a second, so a scan is cheap: a listing of the folders and a few `pread`s per rank. A damaged
box is reported and set aside; it never hides the others. Only one thread may scan and read ranks.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from zmon.agent.sources.box_listing import ListedBox, Listing, reason
from zmon.agent.sources.box_removal import remove_rank
from zmon.agent.sources.box_roots import BoxRoots
from zmon.agent.sources.plans import Plans, TrainerPlan
from zmon.agent.sources.process_table import ProcessTable
from zmon.agent.sources.rank_box import LocalLaunch, RankBox
from zmon.agent.sources.rank_limit import RankLimit
from zmon.agent.sources.reading import Reading
from zmon.agent.sources.unread_boxes import UnreadBoxes
from zmon.box.rank_files import GRACE_SECONDS, SHORT_PATHS
from zmon.box.roots import PLACES, Places
from zmon.errors import BoxError
from zmon.format import counted
from zmon.job.lease import Leases, StartTimes
from zmon.job.shared_ids import JobOwners
from zmon.process import ProcessId
from zmon.schema.api import Suspicion
from zmon.schema.api.agent import UnreadRank
from zmon.schema.names import LABEL_LIMITS
from zmon.schema.rank import RankState

log = logging.getLogger("zmon.boxes")

_MAX_LOGGED = 100  # damaged boxes that the log names; the status of the source counts all of them
PRUNE_NS = 60_000_000_000  # time between two deletions of the boxes of dead ranks


class Boxes:
    """All boxes of this node, or those in one directory."""

    def __init__(
        self,
        root: Path | None,  # the only directory of boxes; None: those of all users
        host: str,
        leases: Leases | None = None,
        clock: Callable[[], int] = time.monotonic_ns,
        proc: Path = Path("/proc"),
        socket_dir: Path = SHORT_PATHS,
        places: Places = PLACES,
        watch: int = 0,  # only the ranks that this `zmon watch` has started; 0: all ranks
    ) -> None:
        self.roots = BoxRoots(root, places)
        self._host, self._clock, self._socket_dir = host, clock, socket_dir
        self._processes = ProcessTable(proc)
        self._leases = leases or Leases()
        self._starts = StartTimes()
        self._open: dict[str, RankBox] = {}
        self._watch = watch
        self._foreign: dict[str, int] = {}  # boxes of ranks that another command has started: inode by path
        self._unread = UnreadBoxes(clock)
        self._unlistable: dict[str, str] = {}  # folders that cannot be listed, with the reason
        self._undeletable: dict[str, tuple[int, str]] = {}  # boxes of dead ranks: owner, and why they stay
        self._dropped: tuple[str, ...] = ()  # lines about what the last scan left out
        self._limit = RankLimit()
        self._owners: JobOwners[int] = JobOwners()
        self._run_uids: JobOwners[tuple[int, str]] = JobOwners()
        self._plans = Plans()
        self._pruned_at: int | None = None
        # Any thread may read the following values; each scan replaces them.
        self.processes: dict[ProcessId, tuple[str, int]] = {}  # job id and rank, if alive in this PID namespace
        self.runs: dict[str, ProcessId] = {}  # the process by run uid, for the same ranks
        self.files: dict[Path, int] = {}  # the inode by box, for ranks alive or just dead
        self.renamed: dict[Path, str] = {}  # the job id by box, where that of the box is another user's

    @property
    def damaged(self) -> dict[Path, str]:
        """The reason for each box, plan or folder that was set aside."""
        return {
            **self._plans.damaged,
            **{Path(path): box.reason for path, box in self._unread.boxes.items()},
            **{Path(path): line for path, line in self._unlistable.items()},
        }

    def read(self) -> Reading:
        """Scan, and delete the files of dead ranks once a minute. The value is the set of suspects."""
        suspects = self.scan()
        now = self._clock()
        if self._pruned_at is None or now - self._pruned_at > PRUNE_NS:
            self._pruned_at = now
            self.prune()
        lines = (*self.damaged.values(), *self._dropped, *self._hidden_jobs(), *self._undeletable_lines())
        return Reading(suspects, lines)

    def _hidden_jobs(self) -> Iterator[str]:
        """Yield a line for each job whose ranks live in another PID namespace, where only their boxes can be read."""
        jobs = Counter(box.job_id for box in self._open.values() if box.alive and not box.pid)
        for job_id, number in sorted(jobs.items()):
            yield (
                f"{number} ranks of {job_id} live in another PID namespace: the agent cannot read their processes, "
                "connections and control groups. Run the agent in the host's PID namespace (hostPID)"
            )

    def scan(self) -> frozenset[Suspicion]:
        """Refresh every box once, and return the suspects."""
        roots, problems = self.roots.find()
        listing = Listing(roots)
        self._drop_foreign(listing)
        self._unlistable = listing.unlistable
        self._plans.refresh(listing.plans)
        self._forget(listing)
        for path in self._limit.begin(listing.boxes, self._open):
            self._open.pop(path).close()
        for path, box in list(self._open.items()):
            try:
                box.refresh()
            except (BoxError, OSError, ValueError) as error:
                self._set_aside(path, box.inode, error)
        for path, listed in list(listing.boxes.items()):
            if path not in self._open and self._unread.may_try(path) and self._limit.admits(path, listed.tenant):
                self._open_box(listed, listing)
        self._note_started_ranks()
        self._limit.end(listing.boxes, self._open, self._unread.boxes)
        self._name_jobs()
        self._dropped = (*problems, *listing.problems, *self._limit.lines, *self._label_lines(), *self._shared_ids())
        self.files = {box.path: box.inode for box in self._open.values() if box.reader is not None}
        living = [(box, box.process) for box in self._open.values() if box.alive and box.process]
        self.processes = {process: (box.job_id, box.identity.rank) for box, process in living}
        self.runs = {box.run_uid: process for box, process in living}
        return frozenset(suspicion for box in self._reported() if (suspicion := box.suspicion()))

    def _drop_foreign(self, listing: Listing) -> None:
        """Remove the boxes of other commands from the listing, so that they do not count in the limit of ranks."""
        if not self._foreign:
            return
        self._foreign = {path: inode for path, inode in self._foreign.items() if path in listing.boxes}
        listing.boxes = {path: box for path, box in listing.boxes.items() if self._foreign.get(path) != box.inode}

    def _forget(self, listing: Listing) -> None:
        """Forget the boxes whose files are gone, once their ranks are old news: until then they show how ranks end."""
        for path, box in list(self._open.items()):
            listed = listing.boxes.get(path)
            if (listed is None and box.is_old_news) or (listed is not None and listed.inode != box.inode):
                self._open.pop(path).close()
        present = listing.boxes
        self._unread.retain(present)
        self._undeletable = {path: entry for path, entry in self._undeletable.items() if path in present}

    def _open_box(self, listed: ListedBox, listing: Listing) -> None:
        path = Path(listed.path)
        try:
            box = RankBox(
                path, self._host, self._leases, self._clock, self._processes, self._starts, listed.owner, listed.tenant
            )
        except (BoxError, OSError, ValueError) as error:
            if not self._watch:
                self._set_aside(listed.path, listed.inode, error)
            elif isinstance(error, BoxError):  # a rank publishes its box whole, so this one is another command's
                self._leave_out(listed, listing)
            return
        if self._watch and box.identity.watch != self._watch:
            box.close()
            self._leave_out(listed, listing)
            return
        self._open[listed.path] = box
        self._limit.add(box)
        self._unread.boxes.pop(listed.path, None)

    def _leave_out(self, listed: ListedBox, listing: Listing) -> None:
        """Leave out the box of another command, now and in later scans."""
        self._foreign[listed.path] = listed.inode
        del listing.boxes[listed.path]

    def _note_started_ranks(self) -> None:
        """Note for each rank that is its whole job which ranks it has started."""
        alone = [box for box in self._open.values() if box.identity.world_size == 1]
        processes = {box.started_ranks.process for box in alone}
        below = [
            box
            for box in self._open.values()
            if not processes.isdisjoint(box.started_ranks.ancestors) and box.has_joined
        ]
        # In this order the newest start of an ancestor's child comes last, and counts.
        newest = dict(sorted(start for box in below for start in box.started_ranks.ancestors.items()))
        unfinished = {process for box in below if not box.has_finished for process in box.started_ranks.ancestors}
        for box in alone:
            box.note_started(newest, unfinished)

    def _name_jobs(self) -> None:
        """Set the job id and the run uid of each box. If two users chose one job id or run uid, each gets its own."""
        by_start = sorted(self._open.values(), key=lambda box: (box.identity.start_unix, box.owner))
        names = self._owners.update((box.identity.job_id, box.owner) for box in by_start)  # pods may share a job
        run_uids = self._run_uids.update((box.identity.run_uid, (box.owner, box.tenant)) for box in by_start)
        for box in by_start:
            box.job_id = names[box.identity.job_id, box.owner]
            box.run_uid = run_uids[box.identity.run_uid, (box.owner, box.tenant)]
        self.renamed = {box.path: box.job_id for box in by_start if box.job_id != box.identity.job_id}

    def _shared_ids(self) -> Iterator[str]:
        """Yield a line for each job that is shown under another job id than its own."""
        ids = {(box.identity.job_id, box.owner, box.job_id) for box in self._open.values()}
        for job_id, owner, shown in sorted(ids):
            if shown != job_id:
                yield f"the job id {job_id} of uid {owner} is also that of another user's job: it is shown as {shown}"

    def _label_lines(self) -> Iterator[str]:
        """Yield a line for each job with too many labels, or with labels that are too long."""
        num_dropped = {box.job_id: len(box.identity.labels) - len(box.labels) for box in self._open.values()}
        for job_id, number in sorted(num_dropped.items()):
            if number:
                yield f"{counted(number, 'label')} of {job_id}: {LABEL_LIMITS}"

    def ranks(self) -> Iterator[tuple[RankBox, RankState]]:
        """Yield every rank that can be read, with its state as of the last scan."""
        for box in self._reported():
            try:
                yield box, box.state()
            except (BoxError, OSError, ValueError) as error:
                self._set_aside(str(box.path), box.inode, error)

    def unread_ranks(self) -> tuple[UnreadRank, ...]:
        """Return the first living ranks whose boxes could not be read at the last try."""
        return tuple(self._unread.ranks())

    def box(self, run_uid: str) -> RankBox | None:
        """Return the box of this start of a rank, or None if it is not open any more."""
        return next((box for box in self._open.values() if box.run_uid == run_uid), None)

    def close(self) -> None:
        while self._open:
            self._open.popitem()[1].close()

    def plan(self, box: RankBox) -> TrainerPlan | None:
        """Return the plan that this rank wrote, or None."""
        return self._plans.find(box.path.parent, box.identity.run_uid)

    def prune(self) -> None:
        """Delete the files of ranks that died GRACE_SECONDS ago, once no rank of their launch lives on this host."""
        living = self._living_launches()
        for path, box in list(self._open.items()):
            gone = box.gone_seconds
            opened_recently = self._clock() - box.opened_at <= GRACE_SECONDS * 1e9
            if gone is None or 0 <= gone <= GRACE_SECONDS or opened_recently or box.launch in living:
                continue
            try:
                named_socket, may_be_link = box.latest_identity.socket, self.roots.may_be_links
                remove_rank(box.path, box.inode, box.owner, named_socket, self._socket_dir, follow_root=may_be_link)
            except (OSError, BoxError) as error:
                self._undeletable[path] = box.owner, reason(path, error, "delete")
            else:
                del self._open[path]
                box.close()

    def _undeletable_lines(self) -> Iterator[str]:
        """Yield a line for each user with dead ranks whose files cannot be deleted."""
        for owner, number in sorted(Counter(owner for owner, _ in self._undeletable.values()).items()):
            first = next(line for uid, line in self._undeletable.values() if uid == owner)
            yield f"{counted(number, 'dead rank')} of uid {owner} fill memory until that user starts a rank: {first}"

    def _reported(self) -> list[RankBox]:
        """Return all boxes, except those of long dead ranks (see `RankBox`) whose launch has no living rank."""
        living = self._living_launches()
        return [box for box in self._open.values() if not box.is_long_dead or box.launch in living]

    def _living_launches(self) -> set[LocalLaunch]:
        return {box.launch for box in self._open.values() if box.alive}

    def _set_aside(self, path: str, inode: int, error: Exception) -> None:
        is_new = path not in self._unread.boxes
        line = self._unread.add(path, inode, error)
        if is_new and len(self._unread.boxes) <= _MAX_LOGGED:
            log.warning("%s", line)
        if path in self._open:
            self._open.pop(path).close()
