"""Watch how a rank and its launcher end, through a pidfd of each (since Linux 6.15 with the exit status).

After the end of a rank, also watch whether its launcher starts other processes: a launch can be watched only once its
ranks have imported torch, which takes seconds, and minutes from a slow file system.
"""

from __future__ import annotations

import contextlib

from zmon.agent.sources.process_table import ProcessTable, boot_ticks, ticks_to_ns
from zmon.process import ExitWatch
from zmon.schema.measures import NS
from zmon.schema.rank import EXECUTED


class RankEnds:
    """The ends of one rank and of its launcher; unknown if they belong to another PID namespace."""

    def __init__(self, pid: int | None, launcher: tuple[int, int] | None, processes: ProcessTable) -> None:
        """Watch the rank `pid` and the process that started it, given by pid and start in clock ticks after boot.

        None: the process cannot be watched from this PID namespace, or has ended.
        """
        self.status: str | None = None
        self.launcher_status: str | None = None
        self._launcher_is_gone = False
        self._launcher_gone_at: int | None = None
        self._processes, self._launcher_pid = processes, launcher[0] if launcher else 0
        self._gone_ticks: int | None = None  # clock ticks after boot when the rank was first seen dead
        self._relaunched_at: int | None = None
        self._rank = _watch(pid) if pid else None
        self._launcher: ExitWatch | None = None
        if launcher is not None and launcher[1]:
            self._launcher = _watch(launcher[0])
            stat = processes.stat(launcher[0])
            if processes.stat(pid or 0) is None:  # processes are hidden from this user
                self._close_launcher()
            elif stat is None or stat.start_ticks != launcher[1]:  # it has ended, and its pid may be another's
                self._launcher_is_gone = True
                self._close_launcher()

    def refresh(self, now_ns: int, rank_is_gone: bool) -> None:
        if rank_is_gone and self._gone_ticks is None:
            self._gone_ticks = boot_ticks()
        if rank_is_gone and self._rank is not None and self.status is None:
            self.status = self._rank.exit_status()
        if self._launcher is not None and not self._launcher_is_gone:
            self._launcher_is_gone = self._launcher.ended()
        if self._launcher_is_gone and self._launcher_gone_at is None:
            self._launcher_gone_at = now_ns
        if self._launcher_is_gone and self._launcher is not None and self.launcher_status is None:
            self.launcher_status = self._launcher.exit_status()
        if self._gone_ticks is not None and self._launcher is not None and not self._launcher_is_gone:
            started = self._processes.newest_child(self._launcher_pid) or 0
            if started > self._gone_ticks:
                self._relaunched_at = now_ns - ticks_to_ns(boot_ticks() - started)

    def note_exec(self) -> None:
        """Count an exec as the end of the rank. The exit status of its process will be that of the other program."""
        self.status = EXECUTED

    def launcher_gone_seconds(self, now_ns: int) -> float | None:
        """Return the time since the launcher was first seen dead; None if it lives, or if that is unknown."""
        return None if self._launcher_gone_at is None else (now_ns - self._launcher_gone_at) * NS

    def relaunched_seconds(self, now_ns: int) -> float | None:
        """Return the age of the launcher's newest process since the rank's end; None: there is none, or unknown."""
        return None if self._relaunched_at is None else (now_ns - self._relaunched_at) * NS

    def close(self) -> None:
        if self._rank is not None:
            self._rank.close()
            self._rank = None
        self._close_launcher()

    def _close_launcher(self) -> None:
        if self._launcher is not None:
            self._launcher.close()
            self._launcher = None


def _watch(pid: int) -> ExitWatch | None:
    with contextlib.suppress(OSError):
        return ExitWatch(pid)
    return None
