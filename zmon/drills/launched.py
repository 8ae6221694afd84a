"""A job that a stage started: its launchers, its folder, and its end."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

import psutil

from zmon.drills.stage import JobSpec

END_SECONDS = 10.0


class Launched:
    """The torchrun processes of a job, each in a session of its own."""

    def __init__(self, spec: JobSpec, folder: Path, processes: Sequence[subprocess.Popen[bytes]]) -> None:
        self.spec, self.folder = spec, folder
        self._processes = list(processes)

    @property
    def launchers(self) -> tuple[int, ...]:
        """Their pids."""
        return tuple(process.pid for process in self._processes)

    def exit_code(self) -> int | None:
        """Of the first launcher; None while it runs."""
        return self._processes[0].poll()

    def end(self) -> None:
        """As its owner would, with SIGTERM; what is still there after that is killed."""
        family = [p for pid in self.launchers for p in _family(pid)]
        for launcher in self._processes:
            if launcher.poll() is None:
                launcher.send_signal(signal.SIGTERM)
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()  # a stopped one hears nothing
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._processes[0].wait(timeout=2.0)
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        for launcher in self._processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                launcher.wait(timeout=END_SECONDS)


def _family(pid: int) -> list[psutil.Process]:
    try:
        parent = psutil.Process(pid)
        return [parent, *parent.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []
