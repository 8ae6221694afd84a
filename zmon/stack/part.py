"""Child processes of the stack: they are started, restarted when they die, and ended with all their children."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import psutil

from zmon.errors import PartFailed
from zmon.stack.ports import listens

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h
_libc = ctypes.CDLL(None, use_errno=True)

MAX_RESTARTS = 5  # if a part dies more often within RESTART_WINDOW_SECONDS, it stays down, with a message
RESTART_WINDOW_SECONDS = 60.0
KILL_AFTER_SECONDS = 2.5  # half of the five seconds in which Ctrl-C ends everything


@dataclass
class Part:
    """A program of the stack. `health` is the URL that answers 200 once the program works, or None if it has none.

    `url` is where the program listens. An answer counts only if the program itself listens there.
    """

    name: str
    command: Sequence[str]
    url: str
    health: str | None
    log: Path
    env: Mapping[str, str] = field(default_factory=dict)
    nice: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)  # of requests to the health URL
    restarts: list[float] = field(default_factory=list)
    process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start the program and write its output to its log. Raises PartFailed if it cannot be started."""
        with self.log.open("ab") as log:
            try:
                self.process = await asyncio.create_subprocess_exec(
                    *self.command,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env={**os.environ, **self.env},
                    start_new_session=True,  # Ctrl-C at the terminal reaches only zmon, which ends the parts in order
                    preexec_fn=_prepare_child(self.nice),
                )
            except OSError as error:
                raise PartFailed(f"cannot start {self.name}", str(error), f"See {self.log}") from error

    async def healthy(self, session: aiohttp.ClientSession, timeout: float = 5.0) -> bool:
        """Return True if the program runs and its health URL answers 200 now."""
        if self.process is None or self.process.returncode is not None:
            return False
        if self.health is None:
            return True
        try:
            limit = aiohttp.ClientTimeout(total=timeout)
            async with session.get(self.health, headers=self.headers, timeout=limit) as answer:
                return answer.status == 200 and self._listens()
        except (aiohttp.ClientError, TimeoutError, OSError):
            return False

    def _listens(self) -> bool:
        """Return True if the program, or a process that it started, listens on the port of its URL."""
        assert self.process is not None
        try:
            process = psutil.Process(self.process.pid)
            pids = [process.pid, *(child.pid for child in process.children(recursive=True))]
        except psutil.NoSuchProcess:
            return False
        return listens(pids, urlsplit(self.url).port or 0)

    async def keep_running(self, say: Callable[[str], None]) -> None:
        """Restart the program whenever it dies, with a message; give up if it keeps dying."""
        while True:
            assert self.process is not None
            code = await self.process.wait()
            now = time.monotonic()
            self.restarts = [t for t in self.restarts if now - t < RESTART_WINDOW_SECONDS] + [now]
            if len(self.restarts) > MAX_RESTARTS:
                say(f"{self.name} died {len(self.restarts)} times within a minute and stays down: see {self.log}")
                return
            say(f"{self.name} died (exit code {code}) and restarts: see {self.log}")
            await asyncio.sleep(0.5)
            try:
                await self.start()
            except PartFailed as error:
                say(str(error))
                return

    def last_lines(self, number: int = 12) -> str:
        try:
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-number:])
        except OSError:
            return ""


def become_subreaper() -> None:
    """Make orphaned grandchildren children of this process (prctl(2)), so that `end_all` ends them as well."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_all(parts: Sequence[Part]) -> None:
    """End every part and all its descendants: SIGTERM, a short wait, then SIGKILL. Blocks for at most 3.5 s."""
    for part in parts:
        if part.process is not None and part.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(part.process.pid, signal.SIGTERM)
    _wait_until_ended(KILL_AFTER_SECONDS)
    for process in _descendants():
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()  # ends a stopped process too, which SIGTERM does not
    _wait_until_ended(1.0)


def _wait_until_ended(seconds: float) -> None:
    """Wait until no descendant is alive. A zombie counts as gone, because asyncio reaps it."""
    deadline = time.monotonic() + seconds
    while _descendants() and time.monotonic() < deadline:
        time.sleep(0.05)


def _descendants() -> list[psutil.Process]:
    return [p for p in psutil.Process().children(recursive=True) if _is_alive(p)]


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _prepare_child(nice: int) -> Callable[[], None]:
    def prepare() -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)  # if zmon is killed, the part ends as well
        if nice:
            os.nice(nice)

    return prepare
