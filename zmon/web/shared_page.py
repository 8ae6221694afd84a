"""A page that many clients may ask for at the same time, and that is made once for all of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable


class SharedPage:
    """The page of /metrics. It is given again for as long as it took to make, so it costs half a core at most."""

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
