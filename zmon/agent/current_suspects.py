"""The ranks that are suspected now, and the requests that wait until they change."""

from __future__ import annotations

import asyncio
import contextlib

from zmon.schema.api import Suspects, SuspectsRequest, Suspicion


class LongPolls:
    """The waiting requests of one endpoint.

    Their number is limited, since each one holds a connection. Beyond the limit the oldest is answered at once, with
    what is known now; a client then asks again.
    """

    def __init__(self, max_waiting: int = 64) -> None:
        self._max_waiting = max_waiting
        self._waiting: dict[asyncio.Event, None] = {}  # oldest first

    async def wait(self, seconds: float) -> None:
        """Wait for the next call of `answer_all`, for `seconds` at most."""
        event = asyncio.Event()
        self._waiting[event] = None
        if len(self._waiting) > self._max_waiting:
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


class CurrentSuspects:
    """The suspects of the last scan, and a version that each change increases. Only for the event loop."""

    def __init__(self) -> None:
        self.now: frozenset[Suspicion] = frozenset()
        self._version = 0
        self._is_leaving = False
        self._polls = LongPolls()

    def update(self, suspects: frozenset[Suspicion]) -> None:
        """Take over the suspects of a scan; if they changed, answer the requests that wait."""
        if suspects != self.now:
            self.now = suspects
            self._version += 1
            self._polls.answer_all()

    async def leave(self, app: object) -> None:
        """Answer the requests that wait: the agent ends now. Called by aiohttp when a signal ends the server."""
        self._is_leaving = True
        self._polls.answer_all()

    async def answer(self, request: SuspectsRequest, max_wait_seconds: float) -> Suspects:
        """Answer when the suspects differ from those of version `since`, or after `wait` seconds."""
        wait = min(request.wait, max_wait_seconds)
        if request.since < 0 and self.now:
            wait = 0
        previous = self._version if request.since < 0 else request.since
        if self._version == previous and wait > 0 and not self._is_leaving:
            await self._polls.wait(wait)
        suspects = sorted(self.now, key=lambda suspicion: (suspicion.job_id, suspicion.rank))
        return Suspects(self._version, suspects, self._is_leaving)
