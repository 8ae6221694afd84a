"""Warns in one line if processes of a command import torch without zmon: such a job only looks as if it were watched.

A wrapper such as opentelemetry-instrument puts another sitecustomize first. A job may replace PYTHONPATH, or start
Python with `-E`. Since `zmon run` becomes the command, the check is a process beside it. It looks at the command's
processes until one is watched as a rank, for ten minutes at most. It keeps only the stderr of the command open, and
ends with the command.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from zmon.probe.autoload.sitecustomize import AUTOLOAD, RUN_PID, switched_off
from zmon.process import process_stat

LOOK_SECONDS = 2.0  # between the first looks
_MAX_LONGER = 8  # later pauses are up to 8 times as long, because a look reads files of all processes of the host
LASTING_SECONDS = 6.0  # a process that has had torch loaded for this long has finished its import
MAX_SECONDS = 600.0
_TORCH = b"/libtorch_cpu.so"
# What Python does with each option by which it ignores the hook.
_ISOLATING = {
    "I": "makes it ignore PYTHONPATH",
    "E": "makes it ignore PYTHONPATH",
    "S": "keeps it from importing sitecustomize",
}


def check_beside(run_pid: str, look_seconds: float = LOOK_SECONDS, lasting_seconds: float = LASTING_SECONDS) -> None:
    """Start the check of the processes of this one, which is about to become the command with this RUN_PID."""
    command = os.getpid()
    with contextlib.suppress(OSError):  # the check is not worth a failure
        receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        receiver.bind(_address(run_pid))
        pidfd = os.pidfd_open(command)
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            receiver.close()
            os.close(pidfd)
            return
        # Not a child of the command, which may wait for its children, and not in its process group.
        try:
            os.setsid()
            if os.fork() == 0:
                _check(command, pidfd, receiver, look_seconds, lasting_seconds)
        finally:
            os._exit(0)


def note_watched() -> None:
    """Tell the check of `zmon run`, if it still listens, that a rank is watched."""
    if run_pid := os.environ.get(RUN_PID):
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            sender.sendto(b"watched", _address(run_pid))


def _address(run_pid: str) -> bytes:
    """Return the address at which the check listens: a name that is not a file."""
    return f"\0zmon-run-{run_pid}".encode()


def _check(command: int, pidfd: int, receiver: socket.socket, look_seconds: float, lasting_seconds: float) -> None:
    """Look at the processes of the command, and write one line about the first that zmon does not reach."""
    _let_go(pidfd, receiver.fileno())
    ended = select.poll()
    ended.register(pidfd, select.POLLIN)
    ended.register(receiver.fileno(), select.POLLIN)
    has_torch_since: dict[int, float] = {}  # pid → the first look at which it had torch
    pause, begin = look_seconds, time.monotonic()
    while time.monotonic() - begin < MAX_SECONDS:
        if ended.poll(1000 * pause):
            return  # the command has ended, or a rank is watched
        pause = min(1.5 * pause, _MAX_LONGER * look_seconds)
        now = time.monotonic()
        has_torch_since = {pid: has_torch_since.get(pid, now) for pid in descendants(command) if has_torch(pid)}
        for pid, since in has_torch_since.items():
            if now - since >= lasting_seconds and (reason := why_unhooked(pid)):
                line = f"zmon: process {pid} imported torch and is not watched: {reason}\n"
                os.write(2, line.encode("utf-8", "replace"))
                return


def _let_go(*needed: int) -> None:
    """Release what the command has: handlers of signals, the folder, and all descriptors except stderr and these."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in {0, 1} - {*needed}:  # if the command has no stdin, the check's own descriptors have its number
        os.dup2(nothing, descriptor)
    used = sorted({0, 1, 2, *needed})
    for low, high in zip(used, [*used[1:], os.sysconf("SC_OPEN_MAX")], strict=True):
        os.closerange(low + 1, high)
    os.chdir("/")


def descendants(command: int) -> Iterator[int]:
    """Yield the command and the processes below it."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and (stat := process_stat(int(entry.name))) is not None:
            children.setdefault(stat.parent, []).append(int(entry.name))
    pids = [command]
    while pids:
        pid = pids.pop()
        yield pid
        pids += children.get(pid, ())


def has_torch(pid: int) -> bool:
    """Return True if a process has loaded the library of torch."""
    with contextlib.suppress(OSError):
        return _TORCH in Path(f"/proc/{pid}/maps").read_bytes()
    return False


def why_unhooked(pid: int) -> str:
    """Return why the hook of `zmon run` did not reach a Python process; "" if it did, or if that is unknown."""
    proc = Path(f"/proc/{pid}")
    try:
        lines, words = (os.fsdecode((proc / name).read_bytes()).split("\0") for name in ("environ", "cmdline"))
    except OSError:
        return ""
    variables = dict(line.partition("=")[::2] for line in lines)
    if switched_off(variables):
        return ""
    if option := isolating_option(words):
        return f"Python was started with -{option}, which {_ISOLATING[option]}. Leave out -{option}"
    paths = variables.get("PYTHONPATH", "").split(":")
    if AUTOLOAD not in paths:
        return "PYTHONPATH was replaced on the way. Put `zmon run` before the command that starts Python"
    first = next((path for path in paths if Path(proc, "cwd", path, "sitecustomize.py").is_file()), AUTOLOAD)
    if first != AUTOLOAD:
        return f"{first}/sitecustomize.py hides that of zmon. Put `zmon run` behind the command that sets it"
    return ""


def isolating_option(words: list[str]) -> str:
    """Return the option of a command line of Python by which it ignores the hook: I, E or S; "" if there is none."""
    rest = iter(words[1:])
    for word in rest:
        if not word.startswith("-") or word.startswith("--"):
            break
        for position, letter in enumerate(word[1:], 2):
            if letter in _ISOLATING:
                return letter
            if letter in "cm":  # what follows is for the job
                return ""
            if letter in "WX":  # its value is the rest of the word, or the next word
                if position == len(word):
                    next(rest, "")
                break
    return ""
