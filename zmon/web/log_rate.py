"""Limits the log of a server: whoever sends it nonsense must not fill the disk."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

INTERVAL_SECONDS = 10.0
_MAX_TEXTS = 100  # different texts that are remembered; the servers of zmon have a dozen
# asyncio logs connections that it cannot accept, aiohttp logs malformed requests; each with a traceback.
LOGGERS = ("asyncio", "aiohttp.server", "zmon.web")


class OncePerInterval(logging.Filter):
    """Lets each message through once in ten seconds, and says how many it held back before."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._logged: dict[str, tuple[float, int]] = {}  # text → time of its last line, number held back since then

    def filter(self, record: logging.LogRecord) -> bool:
        """Return True if the record may be logged."""
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
