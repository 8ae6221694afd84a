"""Kill a child process at every call that changes a file: before it, or in the middle of the bytes of a write.

Children are forked, so that all imports happen once.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

CALLS = ("write", "replace", "rename", "fsync", "unlink", "ftruncate", "mkdir", "rmdir")  # of `os`
SEND_SIGNAL = "pidfd_send_signal"  # a call of `signal`, which `CrashPoint.counted` counts as well
DONE = 0  # exit status of a child that was not killed
# The exit status of a child that was killed at this call. Python ends with 1 or 2 after an error.
_STATUS_OF_CALL = {name: status for status, name in enumerate((*CALLS, SEND_SIGNAL), start=10)}

Say = Callable[[str], None]  # sends a line to the parent


def killed_at(status: int) -> str | None:
    """Return the call at which a child with this exit status was killed; None if no crash point killed it."""
    return next((name for name, number in _STATUS_OF_CALL.items() if number == status), None)


class CrashPoint:
    """Counts the calls that change files, and ends the process at one of them."""

    def __init__(self, number: int, in_the_middle: bool) -> None:
        self._number, self._in_the_middle = number, in_the_middle
        self._count = itertools.count()

    def install(self) -> None:
        """Replace the functions of `os` that change files."""
        for name in CALLS:
            setattr(os, name, self.counted(name, getattr(os, name)))

    def counted(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function whose calls count as well. `name`: one of CALLS, or SEND_SIGNAL."""

        def call_or_end(*arguments: Any, **options: Any) -> Any:
            if next(self._count) == self._number:
                if name == "write" and self._in_the_middle:
                    fd, data = arguments
                    call(fd, bytes(data)[: len(data) // 2])
                os._exit(_STATUS_OF_CALL[name])
            return call(*arguments, **options)

        return call_or_end


def crash_everywhere(folder: Path, attempt: Callable[[Path, CrashPoint], int]) -> Counter[str]:
    """Attempt something with each crash point until nothing is killed any more; return the number of points by call.

    `attempt` gets a path of its own, which is deleted afterwards, and returns the exit status of the child.
    """
    num_points = Counter[str]()
    for number in itertools.count():
        for in_the_middle in (False, True):
            place = folder / f"{number}-{in_the_middle}"
            status = attempt(place, CrashPoint(number, in_the_middle))
            shutil.rmtree(place, ignore_errors=True)
            if killed_at(status) != "write":
                break  # only a write has a middle
        if status == DONE:
            break
        if call := killed_at(status):
            num_points[call] += 1
    return num_points


def outcome_of(module: str, *arguments: str, timeout: float = 170.0) -> Any:
    """Run a module of this folder with a folder of its own and these arguments; return what it prints as JSON."""
    with tempfile.TemporaryDirectory(prefix="zmon-crash-", dir="/dev/shm") as folder:  # in memory, where fsync is quick
        command = [sys.executable, "-m", f"tests.hostile.{module}", folder, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def in_child(function: Callable[[Say], None], point: CrashPoint | None = None) -> tuple[int, list[str]]:
    """Call a function in a forked process, and return the exit status and the lines that it sent.

    The function gets `say`, which sends a line. It uses the `os.write` from before `point.install`, so that a crash
    point does not count the lines. `point`: where the process is killed; None: nowhere.
    """
    reading, writing = os.pipe()
    write = os.write

    def say(line: str) -> None:
        write(writing, f"{line}\n".encode())

    pid = os.fork()
    if pid == 0:
        os.close(reading)
        status = 1
        try:
            if point is not None:
                point.install()
            function(say)
            status = DONE
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        lines = pipe.read().decode().splitlines()
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), lines
