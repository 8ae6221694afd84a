"""Clients that misbehave, all in one process: `python -m bench.attackers URL HALF BODIES READERS PATH…`.

HALF clients send half a request and wait. BODIES clients send a body of 100 MB, which no endpoint of zmon takes.
READERS clients ask for large answers, and one in ten of them does not take its answer. Each begins again whenever its
connection is closed, until SIGTERM. The process then prints how often each status was answered, as JSON.
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
from collections.abc import Sequence
from urllib.parse import urlsplit

_BODY_BYTES = 100 << 20
_PIECE = bytes(1 << 18)
# A client begins again after this time: the test is about what clients hold, not about how fast they come.
_PAUSE_SECONDS = {"half": 3.0, "body": 3.0, "large": 0.1}
_SLOW_READERS = 10  # one reader in ten does not take its answer
_EXTRA_FILES = 200  # open files beside the connections


class Attack:
    """All clients, and what they were answered."""

    def __init__(self, url: str, paths: Sequence[str]) -> None:
        parts = urlsplit(url)
        self._host = parts.hostname or ""
        self._port = parts.port or 80
        self._paths = itertools.cycle(paths)
        self.statuses: Counter[str] = Counter()

    async def half(self) -> None:
        """Send half a request, and wait until the server closes the connection."""
        reader, writer = await self._connect(f"GET {next(self._paths)} HTTP/1.1\r\nHost: {self._host}\r\nX-")
        try:
            await reader.read()
            self.statuses["half closed"] += 1
        finally:
            writer.transport.abort()

    async def body(self) -> None:
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

    async def large(self, slow: bool) -> None:
        """Ask for a large answer."""
        reader, writer = await self._connect(f"GET {next(self._paths)} HTTP/1.0\r\nHost: {self._host}\r\n\r\n")
        try:
            status = (await reader.readline()).split(b" ")[1].decode()
            if slow:
                await asyncio.sleep(3600)
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

        async def again(kind: str, number: int) -> None:
            while True:
                try:
                    if kind == "half":
                        await self.half()
                    elif kind == "body":
                        await self.body()
                    else:
                        await self.large(slow=number % _SLOW_READERS == 0)
                except (OSError, IndexError, asyncio.IncompleteReadError):
                    self.statuses[f"{kind} cut"] += 1
                await asyncio.sleep(_PAUSE_SECONDS[kind])

        kinds = [*["half"] * half, *["body"] * bodies, *["large"] * readers]
        tasks = [asyncio.create_task(again(kind, number)) for number, kind in enumerate(kinds)]
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
