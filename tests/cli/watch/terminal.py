"""A terminal with a shell that has one foreground job, as a person has it: the job has a process group of its own."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
import time
from multiprocessing.connection import wait

# The shell: it starts its arguments in the foreground, and writes each change of their state to descriptor 3.
SHELL = """
import fcntl, json, os, signal, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
pid = os.fork()
if pid == 0:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpgrp())
    for number in (signal.SIGTTOU, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    os.set_inheritable(3, False)
    os.execvp(sys.argv[1], sys.argv[1:])
def say(**event):
    os.write(3, (json.dumps(event) + "\\n").encode())
say(pid=pid)
while True:
    _, status = os.waitpid(pid, os.WUNTRACED | os.WCONTINUED)
    if os.WIFSTOPPED(status):
        say(stopped=os.WSTOPSIG(status))
    elif os.WIFCONTINUED(status):
        say(continued=True)
    else:
        say(code=os.waitstatus_to_exitcode(status))
        break
"""


class Terminal:
    """A job in the foreground of a terminal."""

    def __init__(self, command: list[str], env: dict[str, str], cwd: str) -> None:
        self.keyboard, inner = pty.openpty()
        events, events_in = os.pipe()
        self._shell = subprocess.Popen(
            [sys.executable, "-c", SHELL, *command],
            stdin=inner, stdout=inner, stderr=inner, env=env, cwd=cwd,
            preexec_fn=lambda: os.dup2(events_in, 3), pass_fds=(3,),
        )  # fmt: skip
        os.close(inner)
        os.close(events_in)
        self._events = os.fdopen(events)
        self.output = ""
        self.pid = json.loads(self._events.readline())["pid"]

    def type(self, key: str) -> None:
        """Press a key: `C` is Ctrl-C."""
        os.write(self.keyboard, bytes([ord(key) & 31]))

    def kill(self, number: int) -> None:
        """Send a signal to the job's first process only."""
        os.kill(self.pid, number)

    def type_line(self, text: str) -> None:
        """Type a line."""
        os.write(self.keyboard, f"{text}\n".encode())

    def continue_group(self) -> None:
        """Continue the job as a shell does."""
        os.killpg(self.pid, signal.SIGCONT)

    def hang_up(self) -> None:
        """Close the terminal, and tell its job as a shell does."""
        os.close(self.keyboard)
        self.keyboard = -1
        with contextlib.suppress(ProcessLookupError):  # the kernel was quicker
            os.killpg(self.pid, signal.SIGHUP)

    def read_until(self, text: str, seconds: float = 60.0) -> None:
        """Read the screen until it has this text."""
        deadline = time.monotonic() + seconds
        while text not in self.output:
            self._read(max(0.0, deadline - time.monotonic()))
            assert time.monotonic() < deadline, self.output

    def event(self) -> dict[str, object]:
        """Return the next change of the job's state."""
        while not wait([self._events], 0.1):
            with contextlib.suppress(OSError):  # a full terminal would block the job
                self._read(0.0)
        event: dict[str, object] = json.loads(self._events.readline())
        return event

    def close(self) -> None:
        """End the shell."""
        with contextlib.suppress(OSError):
            while self._read(0.2):
                pass
        self._shell.kill()
        self._shell.wait()
        self._events.close()

    def _read(self, seconds: float) -> bool:
        if self.keyboard < 0 or not wait([self.keyboard], seconds):
            return False
        with contextlib.suppress(OSError):
            text = os.read(self.keyboard, 65536).decode(errors="replace")
            self.output += text
            return bool(text)
        return False
