"""Targets that a Prometheus scrapes: those of jobs whose name ends in `zmon-agent`, as for the alert rules."""

from __future__ import annotations

from urllib.parse import urlsplit

import aiohttp
import msgspec

from zmon.errors import ZmonError
from zmon.format import listed
from zmon.hub.discovery.target import PolledSource, in_order
from zmon.schema.http_config import HttpConfig
from zmon.schema.scraping import AGENT_JOB, is_agent
from zmon.web import client, http_client

_TIMEOUT_SECONDS = 5.0
_MAX_JOBS = 8  # in a message


class _Target(msgspec.Struct, frozen=True, rename="camel"):
    scrape_url: str
    labels: dict[str, str]


class _Targets(msgspec.Struct, frozen=True, rename="camel"):
    active_targets: tuple[_Target, ...] = ()


class _Answer(msgspec.Struct, frozen=True):
    data: _Targets


class PrometheusTargets(PolledSource):
    """The agents that a Prometheus scrapes, also those that do not answer it."""

    interval_seconds = 15.0

    def __init__(self, base: str, http: HttpConfig | None = None) -> None:
        """`http`: the credentials for this Prometheus."""
        self.name, self._base, self._http = f"prometheus:{base}", base, http

    async def find(self, session: aiohttp.ClientSession) -> tuple[str, ...]:
        """Return the base URL of each target. Raises Unreachable, or ZmonError if Prometheus scrapes no agent.

        The hub's session is not used: Prometheus must not see the credentials for agents.
        """
        url = f"{self._base}/api/v1/targets"
        async with http_client.session(self._http) as own_session:
            answer = await client.get(own_session, url, _Answer, _TIMEOUT_SECONDS, state="active")
        targets = answer.data.active_targets
        parts = [urlsplit(target.scrape_url) for target in targets if is_agent(target.labels)]
        if not parts:
            jobs = sorted({target.labels.get("job", "") for target in targets})
            raise ZmonError(
                f"{self._base} scrapes no agent",
                f"it has {listed(jobs, _MAX_JOBS)}" if jobs else "it has no target",
                f"Let the name of a scrape job end in {AGENT_JOB}",
            )
        return in_order([f"{part.scheme}://{part.netloc}" for part in parts])
