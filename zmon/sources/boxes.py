"""What is every rank on this host doing, is it alive, and does it make progress?

Looked at ten times a second, so a look is cheap: a few `pread`s and one line of /proc per rank. A damaged box is
reported and left aside; it never hides the others.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from zmon.box import BoxReader, Identity, Now, Totals
from zmon.errors import BoxError
from zmon.lease import Leases
from zmon.process import ExitWatch, ProcessStat, process_stat
from zmon.records import InFlight, LastWords, RankState, StepRecord

log = logging.getLogger("zmon.boxes")

STOPPED_STATES = ("T", "t")  # by a signal, by a tracer: proc(5)
LEFT_BEHIND_SECONDS = 60.0
GRACE_SECONDS = 900.0  # how long a dead rank's box stays for whoever comes to look
NEWS_SECONDS = 60.0  # how long a death is called to the hub's attention
RETRY_NS = 5_000_000_000  # a box that could not be read is tried again
_RECENT_STEPS = 512  # that the lease is learned from
_NS = 1e-9


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A rank that the hub should look at, and why."""

    job_id: str
    rank: int
    reason: str  # exited · stopped · overdue


class RankBox:
    """One rank's box and what was learned by watching it."""

    def __init__(self, path: Path, host: str, leases: Leases, clock: Callable[[], int], proc: Path) -> None:
        self._reader = BoxReader(path)
        self._host, self._leases, self._clock, self._proc = host, leases, clock, proc
        self.path = path
        self.inode = self._reader.inode
        self.identity = self._reader.identity()
        self._recent: deque[float] = deque(maxlen=_RECENT_STEPS)
        self._seen_record = 0
        self._gone_at: int | None = None
        self._stopped_at: int | None = None
        self._stat: ProcessStat | None = None
        self._exit: ExitWatch | None = None
        self._exit_status: str | None = None
        holder = self._reader.holder()
        if holder:  # 0: in another PID namespace, where nothing can be asked about it
            with contextlib.suppress(OSError):
                self._exit = ExitWatch(holder)
        self.look()
        if self._gone_at is not None:
            self._gone_at = self.now.since  # it died before we came: at its last sign of life, or soon after
        # Long dead when first seen, or from before a reboot, which set the clock back: no news, unless peers live.
        gone = self.gone_seconds
        self.long_dead = gone is not None and not 0 <= gone <= LEFT_BEHIND_SECONDS

    def look(self) -> None:
        """Look again: state, life, new steps. Raises BoxCorrupt."""
        at = self._clock()
        self.now: Now = self._reader.now()
        holder = self._reader.holder()
        if holder is None:
            self._gone_at = self._gone_at if self._gone_at is not None else at
            self._stat = None
        else:
            self._stat = process_stat(holder, self._proc) if holder else None
        stopped = self._stat is not None and self._stat.state in STOPPED_STATES
        self._stopped_at = (self._stopped_at or at) if stopped else None
        if self._exit is not None and self._gone_at is not None and self._exit_status is None:
            self._exit_status = self._exit.exit_status()
        for number, record in self._reader.records(self._seen_record):
            if self._seen_record:  # the first step connects and compiles: nothing to learn the others from
                self._recent.append(record.duration)
            self._seen_record = number
        self.lease_seconds = self._leases.seconds(self.now.activity, self._recent)
        renewed = self.now.step_since if self.now.activity == "train" else self.now.activity_since
        if self.lease_seconds is None or self._gone_at is not None:
            self.overdue_seconds = 0.0
        else:
            self.overdue_seconds = max(0.0, (at - renewed) * _NS - self.lease_seconds)
        self._looked_at = at

    @property
    def gone_seconds(self) -> float | None:
        """Since the rank was first seen dead."""
        return None if self._gone_at is None else (self._clock() - self._gone_at) * _NS

    def suspicion(self) -> Suspicion | None:
        """Why the hub should look at this rank, if it should."""
        reason = None
        if self._gone_at is not None:
            fresh = (self.gone_seconds or 0.0) < NEWS_SECONDS
            reason = "exited" if fresh and self.now.activity != "done" else None
        elif self._stopped_at is not None:
            reason = "stopped"
        elif self.overdue_seconds > 0:
            reason = "overdue"
        return Suspicion(self.identity.job_id, self.identity.rank, reason) if reason else None

    @property
    def start(self) -> tuple[str, int, int]:
        """What this rank shares with those that were started together with it on this host."""
        return self.identity.job_id, self.identity.launcher_pid, self.identity.launcher_start

    @property
    def alive(self) -> bool:
        """Whether the rank lived when last looked at."""
        return self._gone_at is None

    def records_ended(self, after_ns: int, until_ns: int, most: int) -> tuple[StepRecord, ...]:
        """The last records of steps that ended in that time on the host's monotonic clock."""
        return self._reader.records_ended(after_ns, until_ns, most)

    @property
    def socket(self) -> Path:
        """Where the rank can be asked for its stacks; the box itself where it cannot."""
        return Path(self._reader.identity().socket or self.path)  # it is added after the start

    def state(self) -> RankState:
        """Everything about the rank, as of the last look. Raises BoxCorrupt."""
        identity: Identity = self._reader.identity()  # device and backend are added after the start
        totals: Totals = self._reader.totals()
        words: LastWords | None = self._reader.words()
        now, at = self.now, self._looked_at
        groups = self._reader.groups()
        sequences = self._reader.sequences()
        return RankState(
            job_id=identity.job_id,
            attempt=identity.attempt,
            run_uid=identity.run_uid,
            start=identity.start_unix,
            rank=identity.rank,
            local_rank=identity.local_rank,
            world_size=identity.world_size,
            host=self._host,
            pid=identity.pid,
            device=identity.device,
            backend=identity.backend,
            launcher=f"{identity.launcher_pid}@{identity.launcher_start}",
            restart_count=identity.restart_count,
            max_restarts=identity.max_restarts,
            labels=identity.labels,
            alive=self._gone_at is None,
            process_state=self._stat.state if self._stat else None,
            exit_status=self._exit_status,
            gone_seconds=None if self._gone_at is None else (at - self._gone_at) * _NS,
            stopped_seconds=None if self._stopped_at is None else (at - self._stopped_at) * _NS,
            activity=now.activity,
            activity_seconds=(at - now.activity_since) * _NS,
            phase=now.phase,
            step=now.step,
            step_seconds=(at - now.step_since) * _NS,
            state_seconds=(at - now.since) * _NS,
            in_flight=None if now.op is None else InFlight(
                now.op,
                groups[now.group][0] if now.group in groups else "",
                now.sequence,
                now.num_bytes,
                (at - now.since) * _NS,
            ),
            sequences={name: sequences[number] for number, (name, _) in groups.items() if number in sequences},
            lease_seconds=self.lease_seconds,
            overdue_seconds=self.overdue_seconds,
            steps=totals.steps,
            step_seconds_total=totals.step_seconds,
            measures=totals.measures,
            memory=totals.memory,
            report=dict(self._reader.report()),
            last_words=words,
            last_step_time=totals.last_step_time,
            last_checkpoint_time=totals.last_checkpoint_time,
            overhead_seconds=totals.overhead_seconds,
            dropped_records=totals.dropped_records,
            resident_bytes=self._stat.resident_bytes if self._stat else None,
        )  # fmt: skip

    def close(self) -> None:
        """Let the box and the process go."""
        self._reader.close()
        if self._exit is not None:
            self._exit.close()


class Boxes:
    """Every box under one directory."""

    def __init__(
        self,
        root: Path,
        host: str,
        leases: Leases | None = None,
        clock: Callable[[], int] = time.monotonic_ns,
        proc: Path = Path("/proc"),
    ) -> None:
        self._root, self._host, self._clock, self._proc = root, host, clock, proc
        self._leases = leases or Leases()
        self._open: dict[Path, RankBox] = {}
        self._aside: dict[Path, tuple[int, int, str]] = {}  # damaged boxes: inode, when seen, what is wrong

    @property
    def damaged(self) -> dict[Path, str]:
        """What is wrong with each box that had to be left aside."""
        return {path: why for path, (_, _, why) in self._aside.items()}

    def look(self) -> frozenset[Suspicion]:
        """Look at every box once; returns whom to suspect."""
        found = dict(self._scan())
        for path in [p for p in self._open if found.get(p) != self._open[p].inode]:
            self._open.pop(path).close()
        self._aside = {p: aside for p, aside in self._aside.items() if found.get(p) == aside[0]}
        now = self._clock()
        for path in [p for p in found if p not in self._aside or now - self._aside[p][1] > RETRY_NS]:
            try:
                if path in self._open:
                    self._open[path].look()
                else:
                    self._open[path] = RankBox(path, self._host, self._leases, self._clock, self._proc)
                    self._aside.pop(path, None)
            except (BoxError, OSError, ValueError) as error:
                self._leave_aside(path, found[path], error)
        return frozenset(s for box in self._news() if (s := box.suspicion()))

    def ranks(self) -> Iterator[tuple[RankBox, RankState]]:
        """Every rank that can be read, with its state as of the last look."""
        for box in self._news():
            try:
                yield box, box.state()
            except (BoxError, OSError, ValueError) as error:
                self._leave_aside(box.path, box.inode, error)

    def prune(self) -> None:
        """Delete what dead ranks left, after the grace period and once none of their peers here lives."""
        living = self._living()
        for path, box in list(self._open.items()):
            gone = box.gone_seconds
            if gone is not None and not 0 <= gone <= GRACE_SECONDS and box.start not in living:
                del self._open[path]
                with contextlib.suppress(OSError, BoxError):
                    path.unlink()
                    for left in (box.socket, path.with_suffix(".sock"), *_unfinished(path.parent)):
                        left.unlink(missing_ok=True)
                    path.parent.rmdir()  # fails while another rank's box is in it
                    path.parent.parent.rmdir()
                box.close()

    def _news(self) -> list[RankBox]:
        """The boxes that matter: a rank that was long dead when first seen does only while its peers here live."""
        living = self._living()
        return [box for box in self._open.values() if not box.long_dead or box.start in living]

    def _living(self) -> set[tuple[str, int, int]]:
        return {box.start for box in self._open.values() if box.alive}

    def _leave_aside(self, path: Path, inode: int, error: Exception) -> None:
        why = f"cannot read {path}: {error.strerror}" if isinstance(error, OSError) else str(error)
        if path not in self._aside:
            log.warning("%s", why)
        self._aside[path] = (inode, self._clock(), why)
        if path in self._open:
            self._open.pop(path).close()

    def _scan(self) -> Iterator[tuple[Path, int]]:
        """Boxes and their inodes, `<job>/<attempt>/rank-<n>.box`; links are not followed out of the directory."""
        for job in _folders(self._root):
            for attempt in _folders(job):
                with contextlib.suppress(OSError), os.scandir(attempt) as entries:
                    for entry in entries:
                        if entry.name.startswith("rank-") and entry.name.endswith(".box"):
                            yield Path(entry.path), entry.inode()


def _unfinished(folder: Path) -> Iterator[Path]:
    """Boxes of ranks that died while they made them; one that starts just now takes less than a minute."""
    for path in folder.glob(".rank-*.box.*"):
        if time.time() - path.stat().st_mtime > LEFT_BEHIND_SECONDS:
            yield path


def _folders(parent: Path) -> list[Path]:
    """The directories in a directory; none where it is not there (yet). One that may not be read is an error."""
    try:
        with os.scandir(parent) as entries:
            return [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []
