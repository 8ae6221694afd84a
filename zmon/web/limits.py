"""Limits of a server: its open files, divided between its own work and its clients, and the lines of its log.

Every connection is an open file. A daemon at its limit can open neither a source nor another connection. So all clients
together get only a part of the limit, and a daemon whose own work does not fit refuses to start. A client that sends
nonsense must not fill the disk with log lines.
"""

from __future__ import annotations

import logging
import resource
import time
from collections.abc import Callable

from zmon.errors import UsageError

# Enough for 30,000 agents. Some containers allow a billion, and programs that close every possible file take minutes.
_HIGHEST = 65_536
MAX_CONNECTIONS = 512  # hub, Prometheus and dashboards need about a hundred; each costs some 10 KB
# Long polls, and large answers that wait for their turn, hold up to 200 connections for a while (`LongPolls`,
# `WorkQueue`). With fewer than this, they could keep everybody else out. Acts also wait, but only hubs ask for them.
MIN_CONNECTIONS = 256
# asyncio accepts this many before it closes one, so the limit is exceeded by up to three times this number.
ACCEPTED_AT_ONCE = 16
BACKLOG = 1024  # connections that the kernel keeps waiting; beyond it a client tries again after a second
INTERVAL_SECONDS = 10.0  # between two lines of a log with the same text
_MAX_TEXTS = 100  # different texts that are remembered; the servers of zmon have a dozen
# asyncio logs connections that it cannot accept, aiohttp logs malformed requests; each with a traceback.
LOGGERS = ("asyncio", "aiohttp.server", "zmon.web")


def connections_within(limit: int, reserved: int) -> int:
    """Return how many connections may be open at a limit of open files. Raises UsageError if they are too few.

    `reserved`: the files that the daemon needs for its own work.
    """
    num_reserved = reserved + 3 * ACCEPTED_AT_ONCE
    if limit - num_reserved < MIN_CONNECTIONS:
        needed = num_reserved + MIN_CONNECTIONS
        raise UsageError(
            f"this process may open {limit:,} files, but it needs {needed:,}",
            f"{reserved:,} for its own work and the rest for its clients",
            f"Raise the limit first: `ulimit -n {needed}`, or LimitNOFILE={needed} in the systemd unit",
        )
    return min(MAX_CONNECTIONS, limit - num_reserved)


def raise_limit() -> int:
    """Raise the limit of open files as far as this process may; return the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _HIGHEST if hard == resource.RLIM_INFINITY else min(hard, _HIGHEST)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return _HIGHEST if soft == resource.RLIM_INFINITY else soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted


class OncePerInterval(logging.Filter):
    """Lets each message through once in INTERVAL_SECONDS, and says how many it held back before."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._logged: dict[str, tuple[float, int]] = {}  # text → time of its last line, number held back since then

    def filter(self, record: logging.LogRecord) -> bool:
        now, text = self._clock(), str(record.msg).partition("\n")[0]
        logged_at, held_back = self._logged.get(text, (-INTERVAL_SECONDS, 0))
        if now - logged_at < INTERVAL_SECONDS:
            self._logged[text] = logged_at, held_back + 1
            return False
        if held_back:
            record.msg = f"{record.msg} (and {held_back} times more in the last {now - logged_at:.0f} s)"
        if len(self._logged) >= _MAX_TEXTS:
            self._logged.clear()
        self._logged[text] = now, 0
        return True


def limit_logs() -> None:
    """Limit the messages of asyncio and aiohttp in this process."""
    for name in LOGGERS:
        logging.getLogger(name).addFilter(OncePerInterval())
