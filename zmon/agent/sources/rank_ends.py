"""Watch how a rank and its launcher end, through a pidfd of each. Since Linux 6.15, a pidfd has the exit status.

After the end of a rank, also watch whether its launcher starts other processes. They are the first sign of a new
launch. A rank has no box until it has imported torch, which takes seconds, or minutes from a slow file system.
"""

from __future__ import annotations

import contextlib

from zmon.agent.sources.process_table import ProcessTable, boot_ticks, ticks_to_ns
from zmon.process import ExitWatch, ProcessKey
from zmon.schema.rank import EXECUTED


class RankEnds:
    """The ends of one rank and of its launcher, if both are in this PID namespace."""

    def __init__(self, pid: int, launcher: ProcessKey | None, processes: ProcessTable) -> None:
        """Watch the rank with this pid and the process that started it.

        `launcher`: None if it is in another PID namespace; with a start of 0, nothing is known about it either.
        """
        self.status: str | None = None
        self.launcher_status: str | None = None
        self.launcher_gone_ns: int | None = None  # when it was first seen dead; None: it lives, or is unknown
        # The start of the launcher's newest process since the rank's end; None: there is none, or it is unknown.
        self.relaunched_ns: int | None = None
        self._processes = processes
        self._rank = _open_watch(pid)
        self._rank_gone_ticks: int | None = None  # clock ticks after boot when the rank was first seen dead
        self._launcher: ExitWatch | None = None
        self._launcher_pid = 0
        self._had_launcher_ended = False  # before this agent saw the rank
        can_see_processes = processes.stat(pid) is not None
        if launcher is not None and launcher.start_ticks != 0 and can_see_processes:
            self._launcher_pid = launcher.pid
            self._launcher = _open_watch(launcher.pid)
            self._had_launcher_ended = processes.stat_of(launcher) is None
            if self._had_launcher_ended:  # its pid may be another process's now
                self._close_launcher()

    def refresh(self, now_ns: int, rank_is_gone: bool) -> None:
        """Look for the ends of both, and after the end of the rank for a process that the launcher has started."""
        if rank_is_gone:
            self._note_rank_end()
        if self.launcher_gone_ns is None and self._has_launcher_ended():
            self.launcher_gone_ns = now_ns
        if self._launcher is None:
            return
        if self.launcher_gone_ns is None:
            self._look_for_relaunch(now_ns)
        elif self.launcher_status is None:
            self.launcher_status = self._launcher.exit_status()

    def _note_rank_end(self) -> None:
        if self._rank_gone_ticks is None:
            self._rank_gone_ticks = boot_ticks()
        if self._rank is not None and self.status is None:
            self.status = self._rank.exit_status()

    def _has_launcher_ended(self) -> bool:
        return self._had_launcher_ended or (self._launcher is not None and self._launcher.ended())

    def _look_for_relaunch(self, now_ns: int) -> None:
        if self._rank_gone_ticks is None:
            return
        start_ticks = self._processes.newest_child_start(self._launcher_pid)
        if start_ticks is not None and start_ticks > self._rank_gone_ticks:
            self.relaunched_ns = now_ns - ticks_to_ns(boot_ticks() - start_ticks)

    def note_exec(self) -> None:
        """Count an exec as the end of the rank. The exit status of its process will be that of the other program."""
        self.status = EXECUTED

    def close(self) -> None:
        if self._rank is not None:
            self._rank.close()
            self._rank = None
        self._close_launcher()

    def _close_launcher(self) -> None:
        if self._launcher is not None:
            self._launcher.close()
            self._launcher = None


def _open_watch(pid: int) -> ExitWatch | None:
    """Return the watch on a process; None if it has ended, or if there are too many open files."""
    with contextlib.suppress(OSError):
        return ExitWatch(pid)
    return None
