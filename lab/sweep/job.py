"""Starts a command and ends it with all its descendants, even after an error or a signal."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType

import psutil

from zmon.stack.part import become_subreaper

END_SECONDS = 20.0  # time between SIGTERM and SIGKILL
_TAIL_BYTES = 1 << 16


class StartedCommand:
    """A running command. When the context is left, it ends, with all other descendants of this process."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], log: Path) -> None:
        """Start the command. Raises OSError if it cannot be started."""
        become_subreaper()  # ranks have their own sessions: if the launcher dies, they become our children
        log.parent.mkdir(parents=True, exist_ok=True)
        self._log = log
        with log.open("wb") as out:
            self._root = subprocess.Popen(
                command, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
            )

    def __enter__(self) -> StartedCommand:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if self._root.poll() is None:
                self._root.send_signal(signal.SIGTERM)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._root.wait(END_SECONDS)
        finally:  # also after a KeyboardInterrupt while waiting
            for process in psutil.Process().children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    process.kill()
            self._root.wait()
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:  # reap those that became our children
                    pass

    def exit_code(self) -> int | None:
        """Return the exit code, or None while the command runs."""
        return self._root.poll()

    def last_line(self) -> str:
        """Return a clause with the last line of the output."""
        with self._log.open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - _TAIL_BYTES))
            lines = [line.strip() for line in log.read().decode(errors="replace").splitlines() if line.strip()]
        return f"last line: {lines[-1][:200]} (log: {self._log})" if lines else "it printed nothing"


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into KeyboardInterrupt, so that they end the job first, like Ctrl-C."""

    def end(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    handled = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) != signal.SIG_IGN]
    previous_handlers = {number: signal.signal(number, end) for number in handled}
    try:
        yield
    finally:
        for number, handler in previous_handlers.items():
            signal.signal(number, handler)
