"""Targets that a Prometheus scrapes: those of its job `zmon-agent`."""

from __future__ import annotations

from urllib.parse import urlsplit

import aiohttp
import msgspec

from zmon.hub.discovery.target import PolledSource, in_order
from zmon.web import client

_JOB = "zmon-agent"
_TIMEOUT_SECONDS = 5.0


class _Target(msgspec.Struct, frozen=True, rename="camel"):
    scrape_url: str
    labels: dict[str, str]


class _Targets(msgspec.Struct, frozen=True, rename="camel"):
    active_targets: tuple[_Target, ...] = ()


class _Answer(msgspec.Struct, frozen=True):
    data: _Targets


class PrometheusTargets(PolledSource):
    """The agents that a Prometheus scrapes, whether they answer it or not."""

    interval_seconds = 15.0

    def __init__(self, base: str) -> None:
        self.name, self._base = f"prometheus:{base}", base

    async def find(self, session: aiohttp.ClientSession) -> tuple[str, ...]:
        """Return the base URL of each target. Raises Unreachable."""
        url = f"{self._base}/api/v1/targets"
        answer = await client.get(session, url, _Answer, _TIMEOUT_SECONDS, state="active")
        parts = [
            urlsplit(target.scrape_url) for target in answer.data.active_targets if target.labels.get("job") == _JOB
        ]
        return in_order([f"{part.scheme}://{part.netloc}" for part in parts])
