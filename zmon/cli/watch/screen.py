"""Shows the screen of `zmon top` for `zmon watch --top`, in a process of its own, until watch ends or a key closes it.

The screen has the terminal, so the command writes to a file and reads nothing. The screen asks the hub in watch over a
Unix socket, and ends when the pipe from watch is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from pathlib import Path

from zmon.errors import UsageError, need

_END_SECONDS = 3.0  # the screen gives the terminal back within this time, or is killed


def check_terminal() -> None:
    """Raise UsageError if there is no terminal for the screen, and PartFailed if textual is not installed."""
    if not (os.isatty(0) and os.isatty(1)) or os.environ.get("TERM") == "dumb":
        raise UsageError("--top needs a terminal", "stdin or stdout is none, or TERM is dumb", "Leave out --top")
    need("textual", "--top", "top")


def open_output() -> tuple[int, str]:
    """Return the file that the command writes to, and its name. Raises UsageError if it cannot be made."""
    name = f"zmon-output-{os.getpid()}.log"
    try:
        return os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600), name
    except OSError as error:
        what = f"cannot write the output of the command to {name}"
        raise UsageError(what, error.strerror or "", "Change to another directory") from error


class Screen:
    """The process of the screen. It ends when this is closed."""

    def __init__(self, socket: Path) -> None:
        read_end, self._write_end = os.pipe()
        command = [sys.executable, "-E", "-P", "-m", __name__, str(socket), str(read_end)]
        self._process = subprocess.Popen(command, pass_fds=(read_end,))
        os.close(read_end)

    @property
    def is_open(self) -> bool:
        """True until a key closes the screen."""
        return self._process.poll() is None

    def close(self) -> None:
        """End the screen, and wait until the terminal is as before."""
        os.close(self._write_end)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_SECONDS)
            return
        self._process.kill()
        self._process.wait()


def main(socket: str, pipe: str) -> None:
    """Show the screen. `pipe`: the descriptor of the read end of a pipe, whose other end is closed when watch ends."""
    from functools import partial

    from zmon.cli.top.app import Top, connect

    class ScreenOfWatch(Top):
        """The screen, which closes itself when watch ends."""

        def on_mount(self) -> None:
            super().on_mount()
            asyncio.get_running_loop().add_reader(int(pipe), self.exit)

    ScreenOfWatch("http://hub", partial(connect, socket=Path(socket))).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
