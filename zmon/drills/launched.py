"""A job that a stage started: its launchers, its folder, and its end."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import psutil

from zmon.drills.jobs import FOLDER
from zmon.drills.stage import JobSpec

HEED_SECONDS = 2.0  # that a launcher has to end its ranks
END_SECONDS = 10.0


class Launched:
    """The torchrun processes of a job, each in a session of its own."""

    def __init__(self, spec: JobSpec, folder: Path, processes: Sequence[subprocess.Popen[bytes]]) -> None:
        self.spec, self.folder = spec, folder
        self._processes = list(processes)
        self._ended = False

    @property
    def launchers(self) -> tuple[int, ...]:
        """Their pids."""
        return tuple(process.pid for process in self._processes)

    def exit_code(self) -> int | None:
        """Of the first launcher; None while it runs."""
        return self._processes[0].poll()

    def signal(self, number: int, launcher: int = 0) -> None:
        """As its owner would, to a launcher by its index; nothing happens where that has ended."""
        self._processes[launcher].send_signal(number)

    def end(self) -> None:
        """As its owner would, with SIGTERM; what is still there after that is killed."""
        if self._ended:
            return
        for launcher in self._processes:
            launcher.send_signal(signal.SIGTERM)  # not to one that was reaped: its pid may be another's by now
        for process in running(self.folder):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()  # a stopped one hears nothing
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._processes[0].wait(timeout=HEED_SECONDS)
        kill_all(self.folder)
        for launcher in self._processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                launcher.wait(timeout=END_SECONDS)
        self._ended = True


def launch(spec: JobSpec, folder: Path, launchers: Iterable[tuple[Sequence[str], Mapping[str, str]]]) -> Launched:
    """Start a launcher for each command and its environment; all write to one log."""
    with (folder / "log").open("ab") as log:
        processes = [
            subprocess.Popen(
                command,
                env=environment,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            for command, environment in launchers
        ]
    return Launched(spec, folder, processes)


def running(folder: Path) -> list[psutil.Process]:
    """What runs of the jobs whose folder is this one or lies in it, whoever started it and whether that lives or not.

    Known by the environment that a job's launchers are started with (proc_pid_environ(5)): their ranks inherit it.
    """
    return [
        process
        for process in psutil.process_iter(["environ", "status"])
        if process.info["status"] != psutil.STATUS_ZOMBIE
        and FOLDER in (environment := process.info["environ"] or {})
        and Path(environment[FOLDER]).is_relative_to(folder)
    ]


def kill_all(folder: Path, seconds: float = END_SECONDS) -> None:
    """SIGKILL to all of these, and to what they started meanwhile."""
    deadline = time.monotonic() + seconds
    while (left := running(folder)) and time.monotonic() < deadline:
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        time.sleep(0.05)
