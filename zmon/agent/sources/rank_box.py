"""What is one rank doing, is it alive, and does it make progress? Its box tells, and the kernel of its process.

A look costs a few `pread`s. Whatever changes slowly, or is only wanted by who asks, is read then or once a second.
Once the rank is dead nothing changes any more: what its box says is kept, and the file let go after a minute.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from zmon.box import layout
from zmon.box.boundary import Totals
from zmon.box.durations import Mark, durations
from zmon.box.layout import Identity
from zmon.box.reader import BoxReader, Now
from zmon.job.lease import Leases
from zmon.job.timeline import NEWS_SECONDS
from zmon.process import ExitWatch, ProcessStat, process_stat
from zmon.schema.api import Suspicion
from zmon.schema.names import OPS
from zmon.schema.rank import Entered, InFlight, LastWords, RankState
from zmon.schema.step import StepRecord

_STOPPED_STATES = ("T", "t")  # by a signal, by a tracer: proc(5)
LEFT_BEHIND_SECONDS = 60.0
_RECENT_STEPS = 512  # that the lease is learned from
_RECENT_STAYS = 8
_SELDOM_NS = 1_000_000_000  # how often the lease is learned, and a rank that moves is asked of the kernel
_NS = 1e-9


class _Contents(NamedTuple):
    """What the box says beyond the state of this moment."""

    identity: Identity  # device, backend and socket are added after the start
    totals: Totals
    words: LastWords | None
    report: dict[str, float]
    groups: dict[int, tuple[str, int]]
    sequences: dict[int, int]
    entered: list[tuple[int, int, int, int]]


class RankBox:
    """One rank's box and what was learned by watching it."""

    def __init__(self, path: Path, host: str, leases: Leases, clock: Callable[[], int], proc: Path) -> None:
        self.reader: BoxReader | None = BoxReader(path)
        self._host, self._leases, self._clock, self._proc = host, leases, clock, proc
        self.path = path
        self.inode = self.reader.inode
        self.pid = 0  # as seen from here; 0: gone, or in another PID namespace
        self._recent: deque[float] = deque(maxlen=_RECENT_STEPS)
        self._stays: dict[str, deque[float]] = {}  # how long the last ones took, by activity
        self._read_up_to = 0  # number of a boundary
        self._mark: Mark | None = None
        self._began = False  # its first step was seen
        self._learned_at: int | None = None
        self._lease: tuple[str, float | None] | None = None  # the activity it is for, seconds
        self.met_at = clock()
        self._gone_at: int | None = None
        self._stopped_at: int | None = None
        self._blocked_at: int | None = None
        self._stat: ProcessStat | None = None
        self._stat_at = 0
        self._exit: ExitWatch | None = None
        self._exit_status: str | None = None
        self._kept: _Contents | None = None
        try:
            self._meet(self.reader)
        except BaseException:
            self.close()
            raise

    def _meet(self, reader: BoxReader) -> None:
        self.identity = reader.identity()
        self.now: Now = reader.now()
        holder = reader.holder()
        if holder:  # 0: in another PID namespace, where nothing can be asked about it
            with contextlib.suppress(OSError):
                self._exit = ExitWatch(holder)
        self.look()
        if self._gone_at is not None:
            self._gone_at = self._last_sign(reader)  # it died before we came
        # Long dead when first seen, or from before a reboot, which set the clock back: no news, unless peers live.
        gone = self.gone_seconds
        self.long_dead = gone is not None and not 0 <= gone <= LEFT_BEHIND_SECONDS
        if self.long_dead:
            self._let_go(reader)

    def _last_sign(self, reader: BoxReader) -> int:
        """When the rank last did something, or spoke its last words; it died soon after."""
        words = reader.words()
        spoke = 0 if words is None else self._clock() - max(0, int((time.time() - words.time) / _NS))
        return max(self.now.since, spoke)

    def look(self) -> None:
        """Look again: state, life, new steps. Raises BoxCorrupt."""
        at = self._looked_at = self._clock()
        if self._gone_at is None and self.reader is not None:
            self._look_at_the_living(self.reader, at)
        if self._gone_at is not None:
            if self._exit is not None and self._exit_status is None:
                self._exit_status = self._exit.exit_status()
            if self.reader is not None and self.over:
                self._let_go(self.reader)

    def _look_at_the_living(self, reader: BoxReader, at: int) -> None:
        before, self.now = self.now, reader.now()
        if before.activity != self.now.activity:
            stay = (self.now.activity_since - before.activity_since) * _NS
            self._stays.setdefault(before.activity, deque(maxlen=_RECENT_STAYS)).append(stay)
        holder = reader.holder()
        self.pid = holder or 0
        if holder is None:
            self._gone_at, self._stat, self.overdue_seconds = at, None, 0.0
            self._stopped_at = self._blocked_at = None
            self.now = reader.now()  # as it left it
            self._learn(reader, at)
            return
        # A rank that moved since the last look is not stopped.
        still = self.now == before or self._stopped_at is not None or self._blocked_at is not None
        if still or at - self._stat_at >= _SELDOM_NS:
            self._stat = process_stat(holder, self._proc) if holder else None
            self._stat_at = at
        state = self._stat.state if self._stat else None
        self._stopped_at = (self._stopped_at or at) if state in _STOPPED_STATES else None
        self._blocked_at = (self._blocked_at or at) if state == "D" else None
        if self._learned_at is None or at - self._learned_at >= _SELDOM_NS:
            self._learn(reader, at)
        elif self._lease is None or self._lease[0] != self.now.activity:
            self._lease = self._leased()
        renewed = self.now.step_since if self.now.activity == "train" else self.now.activity_since
        lease = self.lease_seconds
        self.overdue_seconds = 0.0 if lease is None else max(0.0, (at - renewed) * _NS - lease)

    def _learn(self, reader: BoxReader, at: int) -> None:
        """The lease of what the rank does now, from the steps it has done."""
        while True:
            first, raw = reader.boundaries_after(self._read_up_to, _RECENT_STEPS)
            if not raw:
                break
            found, self._mark = durations(raw, first, reader.seed, self._mark)
            self._read_up_to = first + len(raw) // layout.BOUNDARY_SIZE - 1
            # The first step connects and compiles: nothing to learn the others from.
            self._recent.extend(found if self._began else found[1:])
            self._began = self._began or bool(found)
        self._learned_at = at
        self._lease = self._leased()

    def _leased(self) -> tuple[str, float | None]:
        activity = self.now.activity
        return activity, self._leases.seconds(activity, self._recent, self._stays.get(activity, ()))

    @property
    def lease_seconds(self) -> float | None:
        """How long it may go without progress; None: it has all time."""
        return None if self._lease is None else self._lease[1]

    @property
    def gone_seconds(self) -> float | None:
        """Since the rank was first seen dead."""
        return None if self._gone_at is None else (self._clock() - self._gone_at) * _NS

    @property
    def over(self) -> bool:
        """Whether its death is no news any more."""
        gone = self.gone_seconds
        return gone is not None and not 0 <= gone <= NEWS_SECONDS

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
    def start(self) -> tuple[str, int, int, int]:
        """What this rank shares with those that were started together with it on this host."""
        who = self.identity
        return who.job_id, who.attempt, who.launcher_pid, who.launcher_start

    @property
    def alive(self) -> bool:
        """Whether the rank lived when last looked at."""
        return self._gone_at is None

    def records_ended(self, after_ns: int, until_ns: int, most: int) -> tuple[StepRecord, ...]:
        """The last records of steps that ended in that time on the host's monotonic clock."""
        return () if self.reader is None else self.reader.records_ended(after_ns, until_ns, most)

    def records_spread(self, after_ns: int, until_ns: int, about: int) -> tuple[StepRecord, ...]:
        """About so many of them, the same steps on every rank."""
        return () if self.reader is None else self.reader.records_spread(after_ns, until_ns, about)

    @property
    def socket(self) -> Path:
        """Where the rank can be asked for its stacks; the box itself where it cannot."""
        identity = self.identity if self.reader is None else self.reader.identity()  # it is added after the start
        return Path(identity.socket or self.path)

    def state(self) -> RankState:
        """Everything about the rank, as of the last look. Raises BoxCorrupt."""
        identity, totals, words, report, groups, sequences, entered = self._contents()
        now, at = self.now, self._looked_at
        seen = time.time() - (self._clock() - at) * _NS
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
            report=dict(report),
            last_words=words,
            last_step_time=totals.last_step_time,
            last_checkpoint_time=totals.last_checkpoint_time,
            overhead_seconds=totals.overhead_seconds,
            dropped_records=totals.dropped_records,
            resident_bytes=self._stat.resident_bytes if self._stat else None,
            blocked_seconds=None if self._blocked_at is None else (at - self._blocked_at) * _NS,
            leaving_seconds=max(0.0, seen - words.time) if self.alive and words and words.kind == "exception" else None,
            between_seconds=totals.between_seconds,
            open_seconds=max(0.0, at * _NS - totals.time),
            entered=tuple(Entered(OPS[op], groups[g][0], s, size) for op, g, s, size in entered if g in groups),
        )  # fmt: skip

    def _contents(self) -> _Contents:
        if self._kept is not None:
            return self._kept
        reader = self.reader
        assert reader is not None  # what it said is kept before it is let go
        who, totals, words, report = reader.identity(), reader.totals(), reader.words(), reader.report()
        return _Contents(who, totals, words, report, reader.groups(), reader.sequences(), reader.entered())

    def _let_go(self, reader: BoxReader) -> None:
        """A thousand dead ranks must not hold a thousand files open."""
        self._kept = self._contents()
        self.identity = self._kept.identity
        self.reader = None
        reader.close()
        if self._exit is not None:
            self._exit.close()
            self._exit = None

    def close(self) -> None:
        """Let the box and the process go."""
        if self.reader is not None:
            self.reader.close()
        if self._exit is not None:
            self._exit.close()
