"""Ask the collectors: each for the reports of all its agents in every pass, and by a long poll for their suspects.

A collector that does not answer leaves its agents silent, as if they did not answer themselves: their ranks are
unwatched, and no finding about them is resolved.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

import aiohttp

from zmon.errors import Unreachable
from zmon.format import counted, plain
from zmon.hub.agent_link import AgentLink
from zmon.hub.agent_poller import LATE_SECONDS, RETRY_SECONDS, SHORTEST_POLL_SECONDS
from zmon.hub.config import HubConfig
from zmon.hub.discovery.target import is_url
from zmon.schema.api import endpoints
from zmon.schema.api.collected import (
    CollectedReport,
    CollectedReports,
    CollectedSuspectsRequest,
    CollectRequest,
    ReportRequest,
)
from zmon.schema.api.received import Undecodable
from zmon.web import client

log = logging.getLogger("zmon.hub")

MAX_AGENTS = 16384  # of all collectors together


@dataclass
class CollectorLink:
    """The link to one collector."""

    url: str
    error: str | None = "it has not answered yet"
    was_asked: bool = False  # a request of the hub has ended, with an answer or without
    has_named_all: bool = False  # it has named all of its agents since the hub started
    agents: dict[str, AgentLink] = field(default_factory=dict)  # by URL
    num_left_out: int = 0  # agents beyond the most of a hub

    @property
    def reachable(self) -> bool:
        """True if it answered the last request."""
        return self.error is None

    @property
    def missing(self) -> str | None:
        """The reason why agents of this collector may be missing in the hub; None: all are known."""
        if not self.has_named_all:
            return self.error or "this collector waits for a source of its agents"
        if self.num_left_out:
            number = counted(self.num_left_out, "agent")
            return f"not asked: {number}, because a hub has {MAX_AGENTS:,} of collectors at most. Use another hub"
        return None


class CollectorPoller:
    """All requests of the hub's passes to the collectors. `links` has all agents of the hub."""

    def __init__(self, config: HubConfig, links: list[AgentLink], suspected: asyncio.Event) -> None:
        self._config, self._links, self._suspected = config, links, suspected
        self.collectors = [CollectorLink(url) for url in config.collectors]
        self._client = uuid.uuid4().hex
        self._requests: dict[str, asyncio.Task[None]] = {}  # by URL of the collector: not answered yet
        self._listeners: list[asyncio.Task[None]] = []

    @property
    def is_complete(self) -> bool:
        """True once every collector has named its agents."""
        return all(each.has_named_all for each in self.collectors)

    @property
    def errors(self) -> dict[str, str]:
        """Return why agents of a collector may be missing, by its URL."""
        return {each.url: missing for each in self.collectors if (missing := each.missing)}

    def start(self, session: aiohttp.ClientSession) -> None:
        """Keep a long poll open to every collector from now on."""
        self._listeners = [asyncio.create_task(self._listen(session, each)) for each in self.collectors]

    async def ask(self, session: aiohttp.ClientSession) -> None:
        """Ask every collector. The pass does not wait for collectors that are already silent."""
        for each in self.collectors:
            if each.url not in self._requests:
                self._requests[each.url] = asyncio.create_task(self._ask_collector(session, each))
        not_silent = [each for each in self.collectors if each.reachable or not each.was_asked]
        if not_silent:
            await asyncio.wait([self._requests[each.url] for each in not_silent])
        for url in [url for url, task in self._requests.items() if task.done()]:
            self._requests.pop(url).result()
        self._links[:] = [link for link in self._links if not link.is_forgotten]  # other parts have the same list

    async def _ask_collector(self, session: aiohttp.ClientSession, collector: CollectorLink) -> None:
        config = self._config
        requests = {
            link.url: link.snapshot_request(0.9 * config.interval_seconds, config.about_steps)
            for link in collector.agents.values()
        }
        agents = tuple(
            ReportRequest(url, each.since, each.plans, each.known, collector.agents[url].wants_packed)
            for url, each in requests.items()
        )
        body = CollectRequest(self._client, agents, config.about_steps, str(config.shard or ""))
        try:
            seconds = 2 * config.agent_timeout_seconds  # its agents have one half of it
            answer = await client.post(session, collector.url, endpoints.COLLECT, body, CollectedReports, seconds)
        except Unreachable as error:
            self._record_silence(collector, str(error))
            return
        finally:
            collector.was_asked = True
        collector.error = None
        collector.has_named_all |= answer.complete
        urls = {report.url for report in answer.agents if is_url(report.url)}
        self._add_agents(collector, urls)
        self._drop_agents(collector, collector.agents.keys() - urls, answer.complete)
        for report in answer.agents:
            if (link := collector.agents.get(report.url)) is not None:
                _record(link, report)

    def _record_silence(self, collector: CollectorLink, error: str) -> None:
        """Record that nothing is known about the agents of a collector, nor about their hosts."""
        if error != collector.error:
            log.warning("%s", error)
        collector.error = error
        for url, link in collector.agents.items():
            others = [each for each in self.collectors if each.reachable and url in each.agents]
            if others:
                link.collector = others[0].url
            else:
                link.record_failure(f"its collector does not answer: {error}", True, collector.url)

    def _add_agents(self, collector: CollectorLink, urls: AbstractSet[str]) -> None:
        """Ask for these agents too."""
        known, num_left_out = {link.url: link for link in self._links}, 0
        for url in sorted(urls - collector.agents.keys()):
            link = known.get(url)
            if link is None:
                if len(known) >= MAX_AGENTS:
                    num_left_out += 1
                    continue
                link = known[url] = AgentLink(url, self._config.shard)
                self._links.append(link)
            elif link.collector or not link.is_target:
                link.name_again()
            link.collector, collector.agents[url] = collector.url, link
        if num_left_out and not collector.num_left_out:
            log.error("%s names more agents than the %s that a hub has at most", collector.url, f"{MAX_AGENTS:,}")
        collector.num_left_out = num_left_out

    def _drop_agents(self, collector: CollectorLink, urls: AbstractSet[str], complete: bool) -> None:
        """Follow that the collector names these agents no longer. Without `complete` it only does not know them yet."""
        for url in urls:
            link = collector.agents[url]
            if not complete:
                error = "its collector has just started, and does not know all of its agents yet"
                link.record_failure(error, True, collector.url)
                continue
            del collector.agents[url]
            other = next((each for each in self.collectors if url in each.agents), None)
            if other is not None:
                link.collector = other.url
            else:
                link.withdraw()

    async def _listen(self, session: aiohttp.ClientSession, collector: CollectorLink) -> None:
        """Keep a long poll for suspects open to one collector, for ever."""
        wait, version = self._config.wait_seconds, -1.0
        while True:
            begin = time.monotonic()
            try:
                request = CollectedSuspectsRequest(wait, version)
                endpoint = endpoints.COLLECTED_SUSPECTS
                answer = await client.ask(session, collector.url, endpoint, request, wait + LATE_SECONDS)
            except Unreachable:
                version = -1.0
                await asyncio.sleep(RETRY_SECONDS)
                continue
            version = answer.version
            by_url = {each.url: each for each in answer.agents}
            for url, link in collector.agents.items():
                each = by_url.get(url)
                link.record_suspects(each.suspects if each else (), each is not None and each.leaving)
            if any(each.suspects for each in answer.agents):
                self._suspected.set()
            await asyncio.sleep(max(0.0, begin + SHORTEST_POLL_SECONDS - time.monotonic()))

    async def close(self) -> None:
        """Cancel the requests that are not answered yet."""
        tasks = [*self._requests.values(), *self._listeners]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _record(link: AgentLink, report: CollectedReport) -> None:
    """Record what a collector says about one agent."""
    if report.error:
        link.record_failure(plain(report.error), report.host_is_up)
        return
    try:
        decoded = link.read(client.RawReport(report.body, report.packed))
    except Undecodable:
        return  # its JSON is requested in the next pass
    except Unreachable as error:
        link.record_failure(str(error))
    else:
        link.record_report(decoded, with_steps=report.since >= 0)
