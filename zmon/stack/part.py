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
from zmon.process import exit_text
from zmon.stack.ports import listens

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h
_libc = ctypes.CDLL(None, use_errno=True)

MAX_RESTARTS = 5  # if a part dies more often within RESTART_WINDOW_SECONDS, it stays down, with a message
RESTART_WINDOW_SECONDS = 60.0
_RESTART_AFTER_SECONDS = 0.5  # after a death
KILL_AFTER_SECONDS = 2.5  # after SIGTERM: half of the five seconds in which Ctrl-C ends everything
_GONE_AFTER_SECONDS = 1.0  # after SIGKILL: until the kernel has ended a process, at the latest


@dataclass
class Part:
    """A program of the stack."""

    name: str
    command: Sequence[str]
    url: str  # where it listens; empty: nowhere
    health: str | None  # the URL that answers 200 once the program works; None: it works while it runs
    log: Path
    env: Mapping[str, str] = field(default_factory=dict)
    nice: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)  # of requests to the health URL
    deaths: list[float] = field(default_factory=list)  # monotonic seconds; only recent ones count
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

    async def is_healthy(self, session: aiohttp.ClientSession, timeout: float = 5.0) -> bool:
        """Return True if the program runs and answers 200 at its health URL. Answers of other programs do not count."""
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
            self.deaths = [death for death in self.deaths if now - death < RESTART_WINDOW_SECONDS] + [now]
            if len(self.deaths) > MAX_RESTARTS:
                times = f"{len(self.deaths)} times within {RESTART_WINDOW_SECONDS:.0f} s"
                say(f"{self.name} died {times} and stays down: see {self.log}")
                return
            say(f"{self.name} died ({exit_text(code)}) and restarts: see {self.log}")
            await asyncio.sleep(_RESTART_AFTER_SECONDS)
            try:
                await self.start()
            except PartFailed as error:
                say(str(error))
                return

    def last_lines(self, number: int = 12) -> str:
        """Return the end of the log; empty if it cannot be read."""
        try:
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-number:])
        except OSError:
            return ""


def become_subreaper() -> None:
    """Let orphaned descendants become children of this process (prctl(2)), so that `end_all` ends them as well."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_all(parts: Sequence[Part]) -> None:
    """End the parts with SIGTERM, then every descendant of this process that is left with SIGKILL, in a part or not.

    Blocks for at most KILL_AFTER_SECONDS + _GONE_AFTER_SECONDS.
    """
    for part in parts:
        if part.process is not None and part.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(part.process.pid, signal.SIGTERM)
    _wait_until_ended(KILL_AFTER_SECONDS)
    for process in _descendants():
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()  # ends a stopped process too, which SIGTERM does not
    _wait_until_ended(_GONE_AFTER_SECONDS)


def _wait_until_ended(seconds: float) -> None:
    """Wait until no descendant of this process is alive, but not longer than this."""
    deadline = time.monotonic() + seconds
    while _descendants() and time.monotonic() < deadline:
        time.sleep(0.05)


def _descendants() -> list[psutil.Process]:
    """Return the descendants of this process. Those that have ended do not count, because asyncio reaps them."""
    alive = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.status() != psutil.STATUS_ZOMBIE:
                alive.append(process)
    return alive


def _prepare_child(nice: int) -> Callable[[], None]:
    """Return what the child calls before it becomes the program."""

    def prepare() -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)  # if zmon is killed, the part ends as well
        if nice:
            os.nice(nice)

    return prepare
