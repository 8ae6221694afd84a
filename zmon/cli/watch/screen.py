"""Show the screen of `zmon top` for `zmon watch --top`, in a process of its own, until watch ends or a key closes it.

The screen has the terminal, so the command writes to a file and reads nothing. The screen asks the hub in watch over a
Unix socket, and ends when the pipe from watch is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from zmon.errors import UsageError, ZmonError, install_command

_END_SECONDS = 3.0  # the screen gives the terminal back


def check_terminal() -> None:
    """Raise an error if there can be no screen."""
    if not (os.isatty(0) and os.isatty(1)) or os.environ.get("TERM") == "dumb":
        raise UsageError("--top needs a terminal", "stdin or stdout is none, or TERM is dumb", "Leave out --top")
    if find_spec("textual") is None:
        raise ZmonError("--top cannot run", "textual is not installed", f"Run {install_command('top')}")


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
        watching, self._watching = os.pipe()
        command = [sys.executable, "-E", "-P", "-m", __name__, str(socket), str(watching)]
        self._process = subprocess.Popen(command, pass_fds=(watching,))
        os.close(watching)

    @property
    def is_open(self) -> bool:
        """True until a key closes the screen."""
        return self._process.poll() is None

    def close(self) -> None:
        """End the screen, and wait until the terminal is as before."""
        os.close(self._watching)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_SECONDS)
            return
        self._process.kill()
        self._process.wait()


def main(socket: str, watching: str) -> None:
    """Show the screen. `watching`: the descriptor of a pipe that is closed when watch ends."""
    from functools import partial

    from zmon.cli.top.app import Top, connect

    class UntilTheEnd(Top):
        """The screen, which closes itself."""

        def on_mount(self) -> None:
            """Start to ask the hub, and to wait for its end."""
            super().on_mount()
            asyncio.get_running_loop().add_reader(int(watching), self.exit)

    UntilTheEnd("http://hub", partial(connect, socket=Path(socket))).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
