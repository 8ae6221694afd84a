"""Watch the process of one rank in /proc: which one it is, whether it is stopped, or blocked in the kernel."""

from __future__ import annotations

from zmon.agent.sources.process_table import ProcessTable, boot_ticks, ticks_to_ns
from zmon.box.reader import BoxReader
from zmon.process import ProcessId, ProcessStat
from zmon.schema.rank import FROZEN, STOPPED_STATES

_SLOW_INTERVAL_NS = 1_000_000_000  # interval of /proc while the rank makes progress
_STILL_NS = 500_000_000  # a rank that changed nothing for this long may be frozen; the check reads two more files


class RankProcess:
    """The process that holds the lock of a box, as of the last look."""

    def __init__(self, processes: ProcessTable) -> None:
        self.pid = 0  # in this PID namespace; 0 if the rank is gone or in another namespace
        self.id: ProcessId | None = None  # None also if it is hidden from this user
        self.state: str | None = None  # as in proc(5), or FROZEN; None: unknown
        self.stopped_at: int | None = None  # nanoseconds; None: it runs
        self.blocked_at: int | None = None  # nanoseconds; None: it is in no uninterruptible sleep
        self._processes = processes
        self._stat: ProcessStat | None = None
        self._stat_at = 0

    @property
    def resident_bytes(self) -> int | None:
        """The memory that it has; None if that is unknown."""
        return self._stat.resident_bytes if self._stat else None

    @property
    def age_ns(self) -> int | None:
        """The time since its start; None if the process is unknown."""
        return None if self.id is None else ticks_to_ns(boot_ticks() - self.id.start_ticks)

    def identify(self, reader: BoxReader, holder: int | None) -> None:
        """Look up the process that holds the lock of the box.

        `holder`: its pid; 0 if it is in another PID namespace, None if nobody holds the lock.
        """
        self.pid = holder or 0
        if self.id is not None and self.id.pid == self.pid:
            return
        process = self._processes.identify(self.pid) if self.pid else None
        self.id = process if reader.holder() == self.pid else None  # it held the lock before and after the lookup

    def refresh(self, now_ns: int, changed_at: int, is_still: bool) -> None:
        """Look at its state, at once if its box `is_still`: a rank that goes on is not stopped.

        `changed_at`: when the box changed last, in nanoseconds.
        """
        may_be_stopped = is_still or self.stopped_at is not None or self.blocked_at is not None
        if may_be_stopped or now_ns - self._stat_at >= _SLOW_INTERVAL_NS:
            self._stat = self._processes.stat_of(self.id) if self.id else None
            self._stat_at = now_ns
        state = self._stat.state if self._stat else None
        if state and now_ns - changed_at >= _STILL_NS and self._processes.is_frozen(self.pid, state):
            state = FROZEN
        self.state = state
        self.stopped_at = (self.stopped_at or now_ns) if state in STOPPED_STATES else None
        self.blocked_at = (self.blocked_at or now_ns) if state == "D" else None

    def has_called_exec(self) -> bool:
        """Return True if the process goes on that held the lock: it has called exec, which closed the box.

        A process that ends lets go of its files only after the kernel has marked it (kernel/exit.c, do_exit).
        """
        stat = self._processes.stat_of(self.id) if self.id is not None else None
        return stat is not None and not stat.is_exiting

    def note_death(self) -> None:
        """Forget what was read: nothing is known about a dead process."""
        self._stat = self.state = self.stopped_at = self.blocked_at = None
