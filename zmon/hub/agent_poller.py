"""The requests of the hub to its agents: for a report in each pass, for suspects by a long poll, and for evidence.

`incidents/agent_data.py` requests the data of a capsule.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection, Iterable, Sequence

import aiohttp

from zmon.errors import NotListening, Unreachable
from zmon.hub.agent_link import AgentLink, links_of
from zmon.hub.config import HubConfig
from zmon.hub.discovery import Discovery
from zmon.schema.api import RankEvidence, SnapshotRequest, SuspectsRequest, endpoints
from zmon.schema.api.agent import AgentReport
from zmon.schema.api.packed import Resting
from zmon.schema.api.received import Undecodable
from zmon.schema.rank import RankState
from zmon.schema.unknown import Unknown
from zmon.web import client

log = logging.getLogger("zmon.hub")

_NO_VERSION = -1  # version of an agent's suspects before the first answer
_RETRY_SECONDS = 0.5  # time until the next long poll to an agent that did not answer
_SHORTEST_POLL_SECONDS = 0.1  # an agent that answers each poll at once must not keep the hub busy
_JSON_SECONDS = 60.0  # an agent whose packed report cannot be decoded is asked for JSON for this time
_LATE_SECONDS = 5.0  # an answer may arrive this long after the end of a long poll
_STEP_INTERVAL_RATIO = 0.9  # of the usual interval of passes: each usual pass requests steps, more frequent ones do not


class AgentPoller:
    """All requests of the hub's passes to the agents. `links` has the state of each agent."""

    def __init__(self, config: HubConfig) -> None:
        self._config = config
        self.links: list[AgentLink] = []
        self._session: aiohttp.ClientSession | None = None
        self._listeners: dict[AgentLink, asyncio.Task[None]] = {}  # the long polls
        self.suspected = asyncio.Event()  # set when an agent reports suspects; the hub clears it
        self._requests: dict[AgentLink, asyncio.Task[None]] = {}  # the requests that are not answered yet
        self.set_targets(config.agents)

    def set_targets(self, urls: Sequence[str]) -> None:
        """Poll these agents from now on, and no others.

        A withdrawn agent is remembered for an hour while its last report has living ranks.
        """
        known = {link.url: link for link in self.links}
        for url in urls:
            if url not in known:
                self.links.append(AgentLink(url, self._config.shard))
            elif not known[url].is_target:
                known[url].restore()
        for link in self.links:
            if link.is_target and link.url not in urls:
                link.withdraw()
        self.links[:] = [link for link in self.links if not link.may_be_forgotten]  # other parts have the same list
        self._listen_to_targets()

    async def follow(self, discovery: Discovery, session: aiohttp.ClientSession) -> None:
        """Poll the agents that discovery finds, and the agents of the command line, until cancelled."""

        def publish(targets: tuple[str, ...]) -> None:
            known, max_agents = {link.url for link in self.links}, self._config.max_agents
            urls = dict.fromkeys((*self._config.agents, *targets))
            known_first = sorted(urls, key=lambda url: url not in known)
            discovery.note_left_out(len(urls) - max_agents)
            self.set_targets(known_first[:max_agents])

        await discovery.run(session, publish)

    def start(self, session: aiohttp.ClientSession) -> None:
        """Keep a long poll open to every agent from now on."""
        self._session = session
        self._listen_to_targets()

    def _listen_to_targets(self) -> None:
        """Open a long poll to each new agent, and end those to withdrawn agents. Does nothing before `start`."""
        if self._session is None:
            return
        for link in [link for link in self._listeners if not link.is_target]:
            self._listeners.pop(link).cancel()
        for link in self.links:
            if link.is_target and link not in self._listeners:
                self._listeners[link] = asyncio.create_task(self._listen(self._session, link))

    async def ask(self, session: aiohttp.ClientSession) -> None:
        """Ask every agent for its snapshot.

        The pass does not wait for agents that are already silent: they must not delay the findings about others.
        """
        # With more requests at the same time, answers could time out before they are read.
        limit = asyncio.Semaphore(self._config.max_requests)
        for link in self.links:
            if link.is_target and link not in self._requests:
                self._requests[link] = asyncio.create_task(self._ask_agent(session, link, limit))
        not_silent = [link for link in self._requests if link.reachable or not link.consecutive_failures]
        if not_silent:
            await asyncio.wait([self._requests[link] for link in not_silent])
        done = {link: task for link, task in self._requests.items() if task.done()}
        for link, task in done.items():
            del self._requests[link]
            task.result()

    async def _ask_agent(self, session: aiohttp.ClientSession, link: AgentLink, limit: asyncio.Semaphore) -> None:
        """Ask one agent for its report, and record the report or the failure in its link."""
        config = self._config
        request = link.snapshot_request(_STEP_INTERVAL_RATIO * config.interval_seconds, config.about_steps)
        try:
            async with limit:
                report = await self._report(session, link, request)
        except Unreachable as error:
            if not link.is_target:
                return
            if str(error) != link.error:
                log.warning("%s", error)
            link.record_failure(str(error), host_is_up=isinstance(error, NotListening))
        else:
            if link.is_target:
                link.record_report(report, with_steps=request.since >= 0)

    async def _report(self, session: aiohttp.ClientSession, link: AgentLink, request: SnapshotRequest) -> AgentReport:
        """Return the agent's report: packed, or as JSON for a while if a part of its packed report is wrong."""
        seconds = self._config.agent_timeout_seconds
        if time.monotonic() >= link.packed_from:
            try:
                report, link.resting = await client.ask_report(session, link.url, request, seconds, link.resting)
            except Undecodable as error:
                log.warning("%s: its packed report cannot be decoded, JSON is requested: %s", link.url, error)
                link.packed_from, link.resting = time.monotonic() + _JSON_SECONDS, Resting()
            else:
                return report
        return await client.ask(session, link.url, endpoints.SNAPSHOT, request, seconds)

    async def _listen(self, session: aiohttp.ClientSession, link: AgentLink) -> None:
        """Keep a long poll for suspects open to one agent, for ever."""
        wait, version = self._config.wait_seconds, _NO_VERSION
        while True:
            begin = time.monotonic()
            try:
                request = SuspectsRequest(wait, version)
                answer = await client.ask(session, link.url, endpoints.SUSPECTS, request, wait + _LATE_SECONDS)
            except Unreachable:
                version = _NO_VERSION
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            version = answer.version
            link.record_suspects(tuple(answer.suspects), answer.leaving)
            if link.suspects:
                self.suspected.set()
            await asyncio.sleep(max(0.0, begin + _SHORTEST_POLL_SECONDS - time.monotonic()))

    async def close(self) -> None:
        """Cancel the requests that are not answered yet."""
        tasks = [*self._requests.values(), *self._listeners.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def evidence_of(
    session: aiohttp.ClientSession,
    config: HubConfig,
    links: Iterable[AgentLink],
    ranks: Sequence[RankState],
    stacks: Collection[int] = (),
    flights: bool = True,
) -> dict[int, RankEvidence | Unknown]:
    """Ask the agents for the evidence about these ranks. A rank whose agent was withdrawn is left out."""
    links_by_uid = links_of(links, ranks)
    targets = [(r, links_by_uid[r.run_uid].link.url) for r in ranks if r.run_uid in links_by_uid]
    return await client.evidence(session, targets, stacks, config.evidence_seconds, config.max_requests, flights)
