"""Ask the agents: every agent for its snapshot in each pass, and by a long poll for the ranks that it suspects."""

from __future__ import annotations

import asyncio
import logging

import aiohttp

from zmon.errors import Unreachable
from zmon.hub.agent_link import AgentLink
from zmon.hub.config import HubConfig
from zmon.schema.api import SnapshotRequest, SuspectsRequest, endpoints
from zmon.web import client

log = logging.getLogger("zmon.hub")

_NO_VERSION = -1  # of an agent's suspects: the hub has not received any
_RETRY_SECONDS = 0.5  # until the next long poll to an agent that did not answer
_LATE_SECONDS = 5.0  # beyond the wait of a long poll, for the answer to arrive


class AgentPoller:
    """All requests of the hub's passes to the agents. `links` has the state of each agent."""

    def __init__(self, config: HubConfig) -> None:
        self._config = config
        self.links = [AgentLink(url) for url in config.agents]
        self.suspected = asyncio.Event()  # an agent reported suspects; whoever waits for it clears it
        self._requests: dict[AgentLink, asyncio.Task[None]] = {}  # not answered yet

    async def ask(self, session: aiohttp.ClientSession) -> None:
        """Ask every agent for its snapshot.

        The pass does not wait for agents that are already silent: they must not delay the findings about others.
        """
        limit = asyncio.Semaphore(self._config.max_requests)  # answers that wait for us to read them must not time out
        for link in self.links:
            if link not in self._requests:
                self._requests[link] = asyncio.create_task(self._ask_agent(session, link, limit))
        if awaited := [task for link, task in self._requests.items() if link.reachable or not link.failures]:
            await asyncio.wait(awaited)
        done = {link: task for link, task in self._requests.items() if task.done()}
        for link, task in done.items():
            del self._requests[link]
            task.result()

    async def _ask_agent(self, session: aiohttp.ClientSession, link: AgentLink, limit: asyncio.Semaphore) -> None:
        config = self._config
        try:
            async with limit:
                since = link.due_cursor(0.9 * config.interval_seconds)
                request = SnapshotRequest(
                    since=-1 if since is None else since, about=config.about_records, plans=link.plans_version
                )
                report = await client.ask(session, link.url, endpoints.SNAPSHOT, request, config.agent_timeout_seconds)
        except Unreachable as error:
            if link.reachable:
                log.warning("%s", error)
            link.record_failure(str(error))
        else:
            link.record_report(report, with_steps=since is not None)

    async def listen(self, session: aiohttp.ClientSession, link: AgentLink) -> None:
        """Keep a long poll for suspects open to one agent, for ever."""
        wait, version = self._config.wait_seconds, _NO_VERSION
        while True:
            try:
                request = SuspectsRequest(wait, version)
                answer = await client.ask(session, link.url, endpoints.SUSPECTS, request, wait + _LATE_SECONDS)
            except Unreachable:
                version = _NO_VERSION
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            version, link.suspects = answer.version, tuple(answer.suspects)
            if link.suspects:
                self.suspected.set()

    async def close(self) -> None:
        """Cancel the requests that are not answered yet."""
        for task in self._requests.values():
            task.cancel()
        await asyncio.gather(*self._requests.values(), return_exceptions=True)
