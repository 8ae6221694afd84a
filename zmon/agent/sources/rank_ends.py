"""Watch how a rank and its launcher end, through a pidfd of each (Linux 6.15 or newer tells the exit status)."""

from __future__ import annotations

import contextlib
from pathlib import Path

from zmon.process import ExitWatch, process_stat

_NS = 1e-9


class RankEnds:
    """The ends of one rank and of its launcher; unknown if they belong to another PID namespace."""

    def __init__(self, pid: int | None, launcher: tuple[int, int] | None, proc: Path) -> None:
        """Watch the rank `pid` and the process that started it, given by pid and start in clock ticks after boot.

        None: the process cannot be watched from this PID namespace, or has ended.
        """
        self.status: str | None = None
        self.launcher_status: str | None = None
        self._launcher_is_gone = False
        self._launcher_gone_at: int | None = None
        self._rank = _watch(pid) if pid else None
        self._launcher: ExitWatch | None = None
        if launcher is not None and launcher[1]:
            self._launcher = _watch(launcher[0])
            stat = process_stat(launcher[0], proc)
            if process_stat(pid or 0, proc) is None:  # processes are hidden from this user
                self._close_launcher()
            elif stat is None or stat.start_ticks != launcher[1]:  # it has ended, and its pid may be another's
                self._launcher_is_gone = True
                self._close_launcher()

    def refresh(self, now_ns: int, rank_is_gone: bool) -> None:
        """Look at both processes again."""
        if rank_is_gone and self._rank is not None and self.status is None:
            self.status = self._rank.exit_status()
        if self._launcher is not None and not self._launcher_is_gone:
            self._launcher_is_gone = self._launcher.ended()
        if self._launcher_is_gone and self._launcher_gone_at is None:
            self._launcher_gone_at = now_ns
        if self._launcher_is_gone and self._launcher is not None and self.launcher_status is None:
            self.launcher_status = self._launcher.exit_status()

    def launcher_gone_seconds(self, now_ns: int) -> float | None:
        """Return the time since the launcher was first seen dead; None if it lives, or if that is unknown."""
        return None if self._launcher_gone_at is None else (now_ns - self._launcher_gone_at) * _NS

    def close(self) -> None:
        """Close the pidfds."""
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
