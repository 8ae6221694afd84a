"""Large answers: made a few at a time, in the order of their requests, so that small ones never wait for them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

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
