"""A command that is started, and ended with all that it started, whatever becomes of it or of us."""

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

END_SECONDS = 20.0  # that it has to end by itself once it is asked to
_TAIL_BYTES = 1 << 16


class StartedCommand:
    """One of them. Leaving the context ends it, and whatever else this process has started."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], log: Path) -> None:
        """Raises OSError: it cannot be started."""
        become_subreaper()  # ranks lead sessions of their own: of a launcher that dies they become our children
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
        finally:  # also where somebody loses patience meanwhile
            for process in psutil.Process().children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    process.kill()
            self._root.wait()
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:  # those that became ours
                    pass

    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._root.poll()

    def last_line(self) -> str:
        """Of what it said."""
        with self._log.open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - _TAIL_BYTES))
            lines = [line.strip() for line in log.read().decode(errors="replace").splitlines() if line.strip()]
        return f"it said last: {lines[-1][:200]} (all of it is in {self._log})" if lines else "it said nothing"


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """A terminal that closes, or a pipeline that gives up, ends the job first, as Ctrl-C does."""

    def end(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    numbers = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) != signal.SIG_IGN]
    before = {number: signal.signal(number, end) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
