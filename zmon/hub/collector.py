"""A collector: it asks its agents for a hub that could not ask all agents of a large cluster itself.

It keeps no reports and judges nothing. For each request of a hub it asks all of its agents at once and returns their
answers as they are. It also keeps the long polls for suspects, and answers one of the hub when any of them changes. So
several hubs may use one collector, and a restart of it loses nothing. Evidence is between the hub and the agents alone.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import msgspec
from aiohttp import web

import zmon
from zmon import metrics
from zmon.errors import NotListening, Unreachable
from zmon.hub.agent_link import AgentLink
from zmon.hub.agent_poller import AgentPoller
from zmon.hub.config import HubConfig
from zmon.hub.discovery import Discovery
from zmon.schema.api import HubHealth, HubHealthRequest, SnapshotRequest, endpoints
from zmon.schema.api.collected import (
    CONTENT_TYPE,
    AgentSuspects,
    CollectedReport,
    CollectedReports,
    CollectedSuspects,
    CollectedSuspectsRequest,
    CollectRequest,
    ReportRequest,
)
from zmon.web import client, http_client
from zmon.web.long_polls import LongPolls
from zmon.web.responses import problem
from zmon.web.server import application, route

log = logging.getLogger("zmon.hub")

_MAX_CLIENTS = 16
_FORGET_SECONDS = 60.0  # a hub that has not asked for so long is gone
_MAX_WAIT_SECONDS = 60.0
_Pending = dict[AgentLink, asyncio.Task[CollectedReport]]


class Collector:
    """The agents of one collector, and what they have not answered yet."""

    def __init__(self, config: HubConfig) -> None:
        self._config = config
        self._agents = AgentPoller(config, self._note_change)
        self._discovery = Discovery(config.sources)
        self._session: aiohttp.ClientSession | None = None
        self._pending: dict[str, _Pending] = {}  # by client
        self._asked_at: dict[str, float] = {}  # by client, monotonic
        self._last_request_time: float | None = None
        self._version = 0
        self._polls = LongPolls()

    # -- reports ---------------------------------------------------------------------------------------

    async def collect(self, request: CollectRequest) -> CollectedReports:
        """Ask all agents, and return what they answer.

        The answer does not wait for agents that are already silent: they must not delay the findings about others.
        """
        self._last_request_time = time.time()
        pending = self._pending_of(request.client)
        by_url = {each.url: each for each in request.agents}
        limit = asyncio.Semaphore(self._config.max_requests)
        targets = [link for link in self._agents.links if link.is_target]
        for link in targets:
            if link not in pending:
                single = by_url.get(link.url, ReportRequest(link.url))
                pending[link] = asyncio.create_task(self._ask(link, single, request, limit))
        not_silent = [pending[link] for link in targets if link.reachable or not link.consecutive_failures]
        if not_silent:
            await asyncio.wait(not_silent)
        reports = tuple(self._taken(link, pending) for link in targets)
        return CollectedReports(reports, self._discovery.is_complete)

    def _pending_of(self, name: str) -> _Pending:
        """Return the requests of one client that are not answered yet, and forget clients that are gone."""
        now = time.monotonic()
        self._asked_at[name] = now
        newest = sorted(self._asked_at, key=self._asked_at.__getitem__)[-_MAX_CLIENTS:]
        gone = [each for each in self._asked_at if each not in newest or now - self._asked_at[each] > _FORGET_SECONDS]
        for each in gone:
            del self._asked_at[each]
            for task in self._pending.pop(each, {}).values():
                task.cancel()
        return self._pending.setdefault(name, {})

    def _taken(self, link: AgentLink, pending: _Pending) -> CollectedReport:
        task = pending.get(link)  # None: another request of the same client took the answer
        if task is not None and task.done():
            del pending[link]
            return task.result()
        return CollectedReport(link.url, link.error or "it has not answered yet", link.host_is_up)

    async def _ask(
        self, link: AgentLink, single: ReportRequest, request: CollectRequest, limit: asyncio.Semaphore
    ) -> CollectedReport:
        assert self._session is not None
        snapshot = SnapshotRequest(
            since=single.since, about=request.about, plans=single.plans, known=single.known, shard=request.shard
        )
        seconds = self._config.agent_timeout_seconds
        try:
            async with limit:
                raw = await client.ask_report(self._session, link.url, snapshot, seconds, single.packed)
        except Unreachable as error:
            if str(error) != link.error:
                log.warning("%s", error)
            link.record_failure(str(error), host_is_up=isinstance(error, NotListening))
            return CollectedReport(link.url, str(error), link.host_is_up)
        link.record_answer()
        return CollectedReport(link.url, packed=raw.is_packed, body=raw.body, since=single.since)

    # -- suspects --------------------------------------------------------------------------------------

    def _note_change(self) -> None:
        self._version += 1
        self._polls.answer_all()

    async def suspects(self, request: CollectedSuspectsRequest) -> CollectedSuspects:
        """Answer when the suspects differ from those of version `since`, or after `wait` seconds."""
        if self._version == request.since and request.wait > 0:
            await self._polls.wait(min(request.wait, _MAX_WAIT_SECONDS))
        agents = tuple(
            AgentSuspects(link.url, link.suspects, link.is_leaving)
            for link in self._agents.links
            if link.suspects or link.is_leaving
        )
        return CollectedSuspects(self._version, agents)

    # -- server ----------------------------------------------------------------------------------------

    async def health(self, request: HubHealthRequest) -> HubHealth:
        """Return which agents answer. A collector is healthy while a hub asks it and an agent answers."""
        statuses = [link.status() for link in self._agents.links]
        is_used = self._last_request_time is not None and time.time() - self._last_request_time < _FORGET_SECONDS
        return HubHealth(
            healthy=is_used and any(status.reachable for status in statuses),
            agents=statuses,
            findings_unwritten=None,
            incidents_unwritten=None,
            unwritten={},
            discovery=self._discovery.errors,
            version=zmon.__version__,
            thresholds=(),
        )

    async def _post_collect(self, request: web.Request) -> web.Response:
        try:
            typed = msgspec.msgpack.decode(await request.read(), type=CollectRequest)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            return problem(f"this is no request of a hub: {error}. Only zmon hub --collectors asks here", 400)
        return web.Response(body=msgspec.msgpack.encode(await self.collect(typed)), content_type=CONTENT_TYPE)

    async def _get_metrics(self, request: web.Request) -> web.Response:
        targets = [link for link in self._agents.links if link.is_target]
        answering = sum(link.reachable for link in targets)
        page = metrics.collector_page(len(targets), answering, self._last_request_time)
        return web.Response(body=page, headers={"Content-Type": metrics.CONTENT_TYPE})

    def app(self) -> web.Application:
        """Return the HTTP application; the long polls to the agents are open while it is served."""
        app = application(self._config.allowed_hosts, self._config.web)
        app.add_routes(
            [
                web.get(endpoints.METRICS, self._get_metrics),
                web.post(endpoints.COLLECT, self._post_collect),
                route(endpoints.COLLECTED_SUSPECTS, self.suspects),
                route(endpoints.COLLECTOR_HEALTH, self.health, lambda health: 200 if health.healthy else 503),
            ]
        )
        app.cleanup_ctx.append(self._run)
        return app

    async def _run(self, app: web.Application) -> AsyncIterator[None]:
        async with http_client.session(self._config.http, self._config.max_connections) as self._session:
            discovery = asyncio.create_task(self._agents.follow(self._discovery, self._session))
            self._agents.start(self._session)
            yield
            discovery.cancel()
            tasks: list[asyncio.Task[Any]] = [task for pending in self._pending.values() for task in pending.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(discovery, *tasks, return_exceptions=True)
            await self._agents.close()
