"""A source of targets, and the form of a target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol
from urllib.parse import urlsplit

import aiohttp


class TargetSource(Protocol):
    """A place that names agents."""

    @property
    def name(self) -> str:
        """The name in messages: the source as `--agents` has it."""

    @property
    def interval_seconds(self) -> float:
        """The time between two questions."""

    async def find(self, session: aiohttp.ClientSession) -> tuple[str, ...]:
        """Return the URLs of all agents as of now, in a stable order. Raises ZmonError."""


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
