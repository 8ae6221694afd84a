"""Limits for expensive answers: large ones are made a few at a time, and clients of /metrics share a page."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable

from zmon.web.responses import Refusal


class WorkQueue:
    """The requests for large answers to one daemon.

    A request keeps its turn until the client has taken the answer, so the memory of waiting requests stays small.
    """

    def __init__(self, at_once: int = 1, max_waiting: int = 64, wait_seconds: float = 30.0) -> None:
        self._turns = asyncio.Semaphore(at_once)
        self._max_waiting, self._wait_seconds = max_waiting, wait_seconds
        self._num_waiting = 0

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for a turn. Raises Refusal with status 503 if too many wait already, or if the wait is too long."""
        if self._num_waiting >= self._max_waiting:
            raise Refusal(503, f"busy: {self._num_waiting} large requests wait already, try again in some seconds")
        self._num_waiting += 1
        try:
            async with asyncio.timeout(self._wait_seconds):
                await self._turns.acquire()
        except TimeoutError:
            raise Refusal(503, f"busy: large requests did not get a turn in {self._wait_seconds:g} s") from None
        finally:
            self._num_waiting -= 1
        try:
            yield
        finally:
            self._turns.release()


class SharedPage:
    """The page of /metrics. A page is reused for as long as it took to make, so it costs half a core at most."""

    def __init__(self, make: Callable[[], Awaitable[bytes]]) -> None:
        self._make = make
        self._making: asyncio.Task[bytes] | None = None
        self._valid_until = 0.0  # monotonic seconds

    async def get(self) -> bytes:
        """Return the page, at most twice as old as the time that it takes to make."""
        if self._making is None or (self._making.done() and time.monotonic() >= self._valid_until):
            self._making = asyncio.create_task(self._timed())
        return await asyncio.shield(self._making)  # a client that leaves must not cost others their page

    async def _timed(self) -> bytes:
        begin = time.monotonic()
        page = await self._make()
        end = time.monotonic()
        self._valid_until = end + (end - begin)
        return page
