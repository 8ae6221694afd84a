"""A source of targets, and the form of a target."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Sequence
from typing import Protocol
from urllib.parse import urlsplit

import aiohttp

from zmon.errors import ZmonError

Answer = tuple[str, ...] | ZmonError  # the URLs of all agents as of now in a stable order, or why they are unknown


class TargetSource(Protocol):
    """A place that names agents."""

    name: str  # in messages: the source as `--agents` has it

    def follow(self, session: aiohttp.ClientSession) -> AsyncGenerator[Answer, None]:
        """Yield each answer, for ever. `session`: the hub's session, with its credentials for agents."""


class PolledSource(ABC):
    """A source that is asked at regular intervals."""

    name: str
    interval_seconds: float  # the time between two requests

    @abstractmethod
    async def find(self, session: aiohttp.ClientSession) -> tuple[str, ...]:
        """Return the URLs of all agents as of now, in a stable order. Raises ZmonError."""

    async def follow(self, session: aiohttp.ClientSession) -> AsyncGenerator[Answer, None]:
        """Yield the answer to each request."""
        while True:
            try:
                answer: Answer = await self.find(session)
            except ZmonError as error:
                answer = error
            yield answer
            await asyncio.sleep(self.interval_seconds)


def url(target: str, scheme: str) -> str:
    """Return the URL of a target such as `node-1:9780`."""
    return target.rstrip("/") if "://" in target else f"{scheme}://{target.rstrip('/')}"


def is_url(text: str) -> bool:
    """Return True if this may be the URL of an agent: scheme, host and port."""
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port is not None
    except ValueError:  # the port is no number
        return False


def in_order(targets: Sequence[str]) -> tuple[str, ...]:
    """Return each target once, in alphabetical order."""
    return tuple(sorted(set(targets)))
