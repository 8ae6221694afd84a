"""Watch one rank through its box and through /proc: what it does, whether it lives, whether it makes progress.

A refresh costs a few `pread`s. What changes slowly is read once a second, and what only a request needs is read on
request. Once the rank is dead, nothing changes: the contents are kept in memory, and the file is closed after a minute.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import NamedTuple

from zmon.agent.redaction import redacted_words
from zmon.agent.sources.learned_lease import LearnedLease
from zmon.agent.sources.observed_silence import ObservedSilence
from zmon.agent.sources.process_table import ProcessTable
from zmon.agent.sources.rank_ends import RankEnds
from zmon.agent.sources.rank_process import RankProcess
from zmon.agent.sources.started_ranks import StartedRanks, latest_start_ns
from zmon.box import layout
from zmon.box.identity import Identity
from zmon.box.layout import Collective
from zmon.box.reader import BoxReader, Now
from zmon.box.ring import Row
from zmon.box.steps import StepEnds, fields_of_state, totals
from zmon.errors import BoxCorrupt
from zmon.job.lease import Leases, StartTimes
from zmon.job.timeline import NEWS_SECONDS
from zmon.process import ProcessId, ProcessKey
from zmon.schema.api import Suspicion
from zmon.schema.measures import NS as _NS
from zmon.schema.names import OPS, bounded_labels, first_job_id, word
from zmon.schema.rank import EnteredCollective, InFlight, LastWords, RankState
from zmon.schema.row import row_of

LEFT_BEHIND_SECONDS = 60.0  # a rank that was dead for longer when its box was first opened is not reported
_FIRST_STEP = 1


class _Contents(NamedTuple):
    """The contents of a box, except the live state."""

    identity: Identity  # device, backend and socket are added after the start
    last: Row  # its last boundary
    words: LastWords | None
    report: dict[str, float]
    groups: dict[int, str]  # name of each group, by its number in the box
    sequences: dict[int, int]  # number of collectives entered, by the number of the group
    entered: list[Collective]
    not_finite_since: dict[str, int | None]  # the step, by source of the loss; None: it is finite


class LocalLaunch(NamedTuple):
    """The launch of a rank, as this host knows it: one launcher starts all its ranks here."""

    job_id: str
    owner: int  # uid
    attempt: int
    launcher_pid: int
    launcher_start: int  # clock ticks after boot


class RankBox:
    """The box of one rank, and what was learned by watching it."""

    def __init__(
        self,
        path: Path,
        host: str,
        leases: Leases,
        clock: Callable[[], int],
        processes: ProcessTable,
        starts: StartTimes | None = None,  # of all jobs of this host
        owner: int | None = None,  # to whom the box must belong; None: any user
        tenant: str = "",  # the user or pod in whose share of the limits the box counts
    ) -> None:
        self.reader: BoxReader | None = BoxReader(path)
        self._host, self._leases, self._clock, self._processes = host, leases, clock, processes
        self.path = path
        self.inode, self.owner, self.tenant = self.reader.inode, self.reader.owner, tenant
        self.opened_at = clock()
        self._gone_at: int | None = None
        self._silence = ObservedSilence(self.opened_at)
        self._process = RankProcess(processes)
        self._import_seconds: float | None = None
        self.started_ranks = StartedRanks()
        self._awaits_start = False  # it may wait for processes that it has just started
        self._ends: RankEnds | None = None  # None: the rank was dead when its box was opened
        self._final: _Contents | None = None  # set once the rank is dead and the file closed
        try:
            if owner not in (None, self.owner):
                reason = f"it belongs to uid {self.owner}, not to uid {owner}"
                raise BoxCorrupt(f"cannot use the black box {path}", reason, "zmon skips it")
            self.identity = self.reader.identity()
            self.job_id, self.run_uid = self.identity.job_id, self.identity.run_uid  # `Boxes` renames duplicates
            self.labels = bounded_labels(self.identity.labels)
            self._lease = LearnedLease(leases, starts or StartTimes(), self.identity, self.owner)
            self._open(self.reader)
        except BaseException:
            self.close()
            raise

    def _open(self, reader: BoxReader) -> None:
        """Look at the rank for the first time. Raises BoxCorrupt."""
        self.now: Now = reader.now()
        if holder := reader.holder():  # 0 if the rank is in another PID namespace: its process cannot be watched
            launcher = ProcessKey(self.identity.launcher_pid, self.identity.launcher_start)
            ends = RankEnds(holder, launcher if holder == self.identity.pid else None, self._processes)
            if reader.holder() == holder:  # else the rank has just ended, and its number may be another process's
                self._ends = ends
            else:
                ends.close()
        self.refresh()
        if self._gone_at is not None:
            self._gone_at = self._last_sign_of_life(reader)  # it died before its box was opened
        if self.process is not None and (age_ns := self._process.age_ns) is not None:
            import_ns = age_ns - (self._clock() - self.identity.start_ns)
            self._import_seconds = import_ns * _NS if import_ns >= 0 else None  # a later process may hold the lock
            self.started_ranks.identify(self.process, self._processes)
        # Not reported: dead for more than a minute, or from before a reboot, which set the clock back (negative time).
        gone = self.gone_seconds
        self.is_long_dead = gone is not None and not 0 <= gone <= LEFT_BEHIND_SECONDS
        if self.is_long_dead:
            self._release()

    def _last_sign_of_life(self, reader: BoxReader) -> int:
        """Return the time of the last change or of the last words, in nanoseconds; the rank died soon after."""
        words = reader.words()
        words_at = 0 if words is None else self._clock() - max(0, int((time.time() - words.time) / _NS))
        return max(self.now.since, words_at)

    def refresh(self) -> None:
        """Read the state again, check that the rank lives, and learn from new steps. Raises BoxCorrupt."""
        now_ns = self._refreshed_at = self._clock()
        if self._gone_at is None and self.reader is not None:
            self._refresh_living(self.reader, now_ns)
        if self._ends is not None:
            self._ends.refresh(now_ns, not self.alive)
        if self.reader is not None and self.is_old_news:
            self._release()

    def _refresh_living(self, reader: BoxReader, now_ns: int) -> None:
        previous, self.now = self.now, reader.now()
        if previous.activity != self.now.activity:
            stay = (self.now.activity_since - previous.activity_since) * _NS
            self._lease.add_stay(previous.activity, stay)
        holder = reader.holder()
        if holder is None and self._ends is not None and self._process.has_called_exec():
            self._ends.note_exec()
        self._process.identify(reader, holder)
        if holder is None:
            self._note_death(reader, now_ns)
            return
        self._process.refresh(now_ns, self.now.since, is_still=self.now == previous)
        self._lease.update(reader, self.now.activity, now_ns)
        silence_seconds = self._silence.look(now_ns, _last_progress(self.now)) * _NS
        self._awaits_start = self._may_await_start(silence_seconds)
        lease = self.lease_seconds
        self.overdue_seconds = 0.0 if lease is None else max(0.0, silence_seconds - lease)

    def _note_death(self, reader: BoxReader, now_ns: int) -> None:
        self._gone_at = now_ns
        self.overdue_seconds = 0.0
        self._process.note_death()
        self.now = reader.now()  # its final state
        self._lease.learn(reader, self.now.activity, now_ns)

    def _may_await_start(self, silence_seconds: float) -> bool:
        """Return True if a rank that is its whole job is past its lease, and has started a process since it trained."""
        lease = self._lease.seconds
        if self.process is None or self.identity.world_size > 1 or lease is None:
            return False
        if not lease < silence_seconds < self._leases.loader_start_seconds:
            return False
        started = self._processes.newest_child_start(self.process.pid)
        return started is not None and self.now.since <= latest_start_ns(started, self._clock())

    @property
    def process(self) -> ProcessId | None:
        """The process of the rank; None if it is gone, in another PID namespace, or hidden from this user."""
        return self._process.id

    @property
    def pid(self) -> int:
        """Its pid in this PID namespace; 0 if the rank is gone or in another namespace."""
        return self._process.pid

    @property
    def has_joined(self) -> bool:
        """True once the rank has joined a process group."""
        return self.identity.world_size > 1 or self.latest_identity.backend is not None

    @property
    def has_finished(self) -> bool:
        """True if the rank was done and has ended."""
        return not self.alive and self.now.activity == "done"

    def note_started(self, newest: Mapping[ProcessKey, int], unfinished: Collection[ProcessKey]) -> None:
        """Note the ranks that this rank has started (zmon/agent/sources/started_ranks.py)."""
        self.started_ranks.note(newest, unfinished, self.now, self._clock())

    @property
    def is_superseded(self) -> bool:
        """True if this rank was its whole job, then started the ranks of another job and has only waited since."""
        return self.identity.world_size == 1 and self.started_ranks.has_superseded(self.now, self.alive)

    @property
    def activity(self) -> str:
        """The activity of the rank; `done` while it only waits for the ranks of another job that it has started."""
        return "done" if self.is_superseded else self.now.activity

    @property
    def lease_seconds(self) -> float | None:
        """The time that the rank may go without progress; None: no limit."""
        if self.is_superseded:
            return None
        return self._leases.loader_start_seconds if self._awaits_start else self._lease.seconds

    @property
    def gone_seconds(self) -> float | None:
        """The time since the rank was first seen dead; None while it lives."""
        return _seconds_since(self._gone_at, self._clock())

    @property
    def is_old_news(self) -> bool:
        """True once the rank has been dead for more than NEWS_SECONDS."""
        gone = self.gone_seconds
        return gone is not None and not 0 <= gone <= NEWS_SECONDS

    def suspicion(self) -> Suspicion | None:
        """Return the suspicion against this rank, or None."""
        reason = None
        if self._gone_at is not None:
            reason = None if self.is_old_news or self.activity == "done" else "exited"
        elif self._process.stopped_at is not None:
            reason = "stopped"
        elif self.overdue_seconds > 0:
            reason = "overdue"
        return Suspicion(self.job_id, self.identity.rank, reason) if reason else None

    @property
    def launch(self) -> LocalLaunch:
        """The launch that this rank belongs to."""
        identity = self.identity
        return LocalLaunch(
            identity.job_id, self.owner, identity.attempt, identity.launcher_pid, identity.launcher_start
        )

    @property
    def alive(self) -> bool:
        """True if the rank was alive at the last refresh."""
        return self._gone_at is None

    def steps_ended(self, after_ns: int, until_ns: int, max_steps: int) -> list[StepEnds]:
        """Return the last `max_steps` steps that ended in that time on the host's monotonic clock."""
        return [] if self.reader is None else self.reader.steps_ended(after_ns, until_ns, max_steps)

    def steps_spread(self, after_ns: int, until_ns: int, about: int) -> list[StepEnds]:
        """Return about `about` of the steps that ended in that time, the same ones on every rank."""
        return [] if self.reader is None else self.reader.steps_spread(after_ns, until_ns, about)

    @property
    def latest_identity(self) -> Identity:
        """The identity with what the rank has added since its start, such as its worker server and its loops."""
        return self.identity if self.reader is None else self.reader.identity()

    def state(self) -> RankState:
        """Return everything about the rank as of the last refresh. Raises BoxCorrupt."""
        contents = self._contents()
        identity, last, words, groups = contents.identity, contents.last, contents.words, contents.groups
        # A dead rank does not change, so its ages are exact at any time. A living rank may have gone on since then.
        now, now_ns = self.now, self._refreshed_at if self.alive else self._clock()
        refreshed_time = time.time() - (self._clock() - now_ns) * _NS
        wanted_job_id = (
            identity.job_id if identity.job_id != self.job_id else first_job_id(self.job_id, identity.launch_id)
        )
        words_seconds = max(0.0, refreshed_time - words.time) if words else None
        return row_of(
            RankState,
            identity,
            job_id=self.job_id,
            run_uid=self.run_uid,
            start=identity.start_unix,
            host=self._host,
            launcher=f"{identity.launcher_pid}@{identity.launcher_start}",
            labels=bounded_labels(identity.labels),
            alive=self.alive,
            process_state=self._process.state,
            exit_status=self._ends.status if self._ends else None,
            gone_seconds=_seconds_since(self._gone_at, now_ns),
            stopped_seconds=_seconds_since(self._process.stopped_at, now_ns),
            activity=self.activity,
            activity_seconds=(now_ns - now.activity_since) * _NS,
            phase=now.phase,
            step=now.step,
            step_seconds=(now_ns - now.step_since) * _NS,
            state_seconds=(now_ns - now.since) * _NS,
            in_flight=_in_flight(now, groups, (now_ns - now.since) * _NS),
            sequences={groups[number]: count for number, count in contents.sequences.items() if number in groups},
            lease_seconds=self.lease_seconds,
            overdue_seconds=self.overdue_seconds,
            totals=totals(last),
            **fields_of_state(last),
            report=dict(contents.report),
            not_finite_since=contents.not_finite_since,
            last_words=words,
            resident_bytes=self._process.resident_bytes,
            blocked_seconds=_seconds_since(self._process.blocked_at, now_ns),
            import_seconds=self._import_seconds,
            leaving_seconds=words_seconds if self.alive and words and words.kind == "exception" else None,
            last_words_seconds=words_seconds,
            launcher_gone_seconds=_seconds_since(self._ends.launcher_gone_ns, now_ns) if self._ends else None,
            launcher_status=self._ends.launcher_status if self._ends else None,
            superseded=self.is_superseded,
            relaunched_seconds=_seconds_since(self._ends.relaunched_ns, now_ns) if self._ends else None,
            device_name=identity.device_name or (self._processes.processors if identity.device == "cpu" else ""),
            watched=self._ends is not None,
            unobserved_seconds=self._silence.unobserved_ns * _NS if self.alive else 0.0,
            open_seconds=max(0.0, (now_ns - last[layout.TIME]) * _NS),
            owner=self.owner,
            wanted_job_id=wanted_job_id if wanted_job_id != self.job_id else "",
            entered=tuple(
                EnteredCollective(word(OPS, op, "op"), groups[group], sequence, num_bytes)
                for op, group, sequence, num_bytes in contents.entered
                if group in groups
            ),
        )

    def _contents(self) -> _Contents:
        if self._final is not None:
            return self._final
        reader = self.reader
        assert reader is not None  # `_release` stores the contents before it closes the reader
        groups = {number: name for number, (name, _) in reader.groups().items()}
        return _Contents(
            reader.identity(), reader.last_boundary(), redacted_words(reader.words()), reader.report(),
            groups, reader.sequences(), reader.entered(), reader.not_finite_since(),
        )  # fmt: skip

    def _release(self) -> None:
        """Store the contents and close the files, because a thousand dead ranks must not hold as many files open."""
        self._final = self._contents()
        self.identity = self._final.identity
        self.close()
        self.reader = None

    def close(self) -> None:
        if self.reader is not None:
            self.reader.close()
        if self._ends is not None:
            self._ends.close()


def _last_progress(now: Now) -> int:
    """Return when the rank has progressed last, in nanoseconds of the host's monotonic clock.

    Until its first step ends, each change of its state is progress. The updates of some jobs are never seen as steps,
    and a first step may have thousands of batches.
    """
    if now.activity in ("init", "train") and now.step <= _FIRST_STEP:
        return now.since
    return now.step_since if now.activity == "train" else now.activity_since


def _seconds_since(moment_ns: int | None, now_ns: int) -> float | None:
    return None if moment_ns is None else (now_ns - moment_ns) * _NS


def _in_flight(now: Now, groups: Mapping[int, str], seconds: float) -> InFlight | None:
    """Return the collective that the rank is in, for `seconds` now; None if it is in none."""
    if now.op is None:
        return None
    group = "" if now.group is None else groups.get(now.group, "")
    return InFlight(now.op, group, now.sequence, now.num_bytes, seconds)
