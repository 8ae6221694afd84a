"""Clients that misbehave, all in one process: `python -m bench.attackers URL HALF BODIES READERS PATH…`.

HALF clients send half a request and wait. BODIES clients send a body of 100 MB, which no endpoint of zmon takes.
READERS clients ask for large answers, and one in ten of them does not read its answer. Every client begins again when
its connection is closed, until SIGTERM. The process then prints how often each status was answered, as JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import resource
import signal
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from urllib.parse import urlsplit

_BODY_BYTES = 100 << 20
_PIECE = bytes(1 << 18)
# A client begins again after this time: the attack is the connections that clients hold, not the rate of requests.
_PAUSE_SECONDS = {"half": 3.0, "body": 3.0, "large": 0.1}
_READERS_PER_SLOW_ONE = 10  # a slow reader does not read its answer
_SLOW_SECONDS = 3600.0  # how long such a reader keeps the connection
_EXTRA_FILES = 200  # open files beside the connections


class Attack:
    """All clients, and the statuses of the answers."""

    def __init__(self, url: str, paths: Sequence[str]) -> None:
        parts = urlsplit(url)
        self._host = parts.hostname or ""
        self._port = parts.port or 80
        self._paths = itertools.cycle(paths)
        self.statuses: Counter[str] = Counter()

    async def send_half_request(self) -> None:
        """Send half a request, and wait until the server closes the connection."""
        reader, writer = await self._connect(f"GET {next(self._paths)} HTTP/1.1\r\nHost: {self._host}\r\nX-")
        try:
            await reader.read()
            self.statuses["half closed"] += 1
        finally:
            writer.transport.abort()

    async def send_large_body(self) -> None:
        """Send a body of 100 MB."""
        reader, writer = await self._connect(
            f"POST {next(self._paths)} HTTP/1.1\r\nHost: {self._host}\r\nContent-Length: {_BODY_BYTES}\r\n\r\n"
        )
        try:
            with contextlib.suppress(ConnectionError):  # the server has answered and closed
                for _ in range(_BODY_BYTES // len(_PIECE)):
                    writer.write(_PIECE)
                    await writer.drain()
            self.statuses[f"body {(await reader.readline()).split(b' ')[1].decode()}"] += 1
        finally:
            writer.transport.abort()

    async def read_large_answer(self, is_slow: bool) -> None:
        """Ask for a large answer."""
        reader, writer = await self._connect(f"GET {next(self._paths)} HTTP/1.0\r\nHost: {self._host}\r\n\r\n")
        try:
            status = (await reader.readline()).split(b" ")[1].decode()
            if is_slow:
                await asyncio.sleep(_SLOW_SECONDS)
            while await reader.read(1 << 20):
                pass
            self.statuses[f"large {status}"] += 1
        finally:
            writer.transport.abort()

    async def _connect(self, head: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(self._host, self._port)
        writer.write(head.encode())
        await writer.drain()
        return reader, writer

    async def run(self, half: int, bodies: int, readers: int) -> None:
        """Run all clients until SIGTERM."""

        async def again(kind: str, client: Callable[[], Awaitable[None]]) -> None:
            while True:
                try:
                    await client()
                except (OSError, IndexError, asyncio.IncompleteReadError):
                    self.statuses[f"{kind} cut"] += 1
                await asyncio.sleep(_PAUSE_SECONDS[kind])

        tasks = [asyncio.create_task(again("half", self.send_half_request)) for _ in range(half)]
        tasks += [asyncio.create_task(again("body", self.send_large_body)) for _ in range(bodies)]
        for number in range(readers):
            reader = partial(self.read_large_answer, is_slow=number % _READERS_PER_SLOW_ONE == 0)
            tasks.append(asyncio.create_task(again("large", reader)))
        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        await stop.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def main() -> None:
    """Run the attack that the command line describes."""
    url, *numbers = sys.argv[1:5]
    half, bodies, readers = map(int, numbers)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, half + bodies + readers + _EXTRA_FILES), hard))
    attack = Attack(url, sys.argv[5:])
    asyncio.run(attack.run(half, bodies, readers))
    print(json.dumps(attack.statuses))


if __name__ == "__main__":
    main()
