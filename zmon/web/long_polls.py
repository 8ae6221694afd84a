"""Long polls: requests that wait for news, or until their time is over."""

from __future__ import annotations

import asyncio
import contextlib


class LongPolls:
    """The waiting requests of one endpoint.

    Their number is limited, since each one holds a connection. Beyond the limit the oldest is answered at once, with
    what is known now; a client then asks again.
    """

    def __init__(self, most: int = 64) -> None:
        self._most = most
        self._waiting: dict[asyncio.Event, None] = {}  # oldest first

    async def wait(self, seconds: float) -> None:
        """Wait for the next call of `answer_all`, for `seconds` at most."""
        event = asyncio.Event()
        self._waiting[event] = None
        if len(self._waiting) > self._most:
            oldest = next(iter(self._waiting))
            del self._waiting[oldest]
            oldest.set()
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await event.wait()
        finally:
            self._waiting.pop(event, None)

    def answer_all(self) -> None:
        """Let all requests that wait now be answered."""
        for event in self._waiting:
            event.set()
        self._waiting.clear()
