"""Start and end the jobs of a stage: launchers, their ranks, and all processes that they leave behind."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import psutil

from lab.jobs import FOLDER
from lab.stage import JobSpec

TERM_SECONDS = 2.0  # time for a launcher to end its ranks after SIGTERM
END_SECONDS = 10.0  # time for all processes to end after SIGKILL


class Launched:
    """A job that a stage started: its torchrun processes, each in its own session, and its directory.

    All ranks share the directory: it has the orders of the drill, checkpoints and logs.
    """

    def __init__(self, spec: JobSpec, folder: Path, processes: Sequence[subprocess.Popen[bytes]]) -> None:
        self.spec, self.folder = spec, folder
        self._processes = list(processes)
        self._ended = False
        for process in processes:  # as a shell does: the kernel tells how a process ended once its parent has waited
            threading.Thread(target=process.wait, daemon=True).start()

    @property
    def launchers(self) -> tuple[int, ...]:
        """The pids of the torchrun processes; the first one starts rank 0."""
        return tuple(process.pid for process in self._processes)

    def exit_code(self) -> int | None:
        """Return the exit code of the first launcher, or None while it runs."""
        return self._processes[0].poll()

    def signal(self, number: int, launcher: int = 0) -> None:
        """Send a signal to the launcher with this index, as its owner would; nothing happens if it has ended."""
        self._processes[launcher].send_signal(number)

    def end(self) -> None:
        """End the job with SIGTERM, as its owner would, then kill what is left. It may be called twice."""
        if self._ended:
            return
        for launcher in self._processes:
            launcher.send_signal(signal.SIGTERM)  # skips a reaped process, whose pid may be reused
        for process in running(self.folder):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()  # a stopped process handles no signal
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._processes[0].wait(timeout=TERM_SECONDS)
        kill_all(self.folder)
        for launcher in self._processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                launcher.wait(timeout=END_SECONDS)
        self._ended = True


def launch(spec: JobSpec, folder: Path, launchers: Iterable[tuple[Sequence[str], Mapping[str, str]]]) -> Launched:
    """Start a launcher for each pair of command and environment; all write to one log."""
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
    """Return the processes of the jobs whose directory is `folder` or inside it, even if their parents have died.

    An environment variable of the launchers (proc_pid_environ(5)), which ranks inherit, identifies them.
    """
    return [
        process
        for process in psutil.process_iter(["environ", "status"])
        if process.info["status"] != psutil.STATUS_ZOMBIE
        and FOLDER in (environment := process.info["environ"] or {})
        and Path(environment[FOLDER]).is_relative_to(folder)
    ]


def kill_all(folder: Path) -> None:
    """Send SIGKILL to the processes of the jobs in `folder`, until none is left or END_SECONDS have passed."""
    deadline = time.monotonic() + END_SECONDS
    while (processes := running(folder)) and time.monotonic() < deadline:
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        time.sleep(0.05)
