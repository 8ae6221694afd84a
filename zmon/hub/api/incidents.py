"""The hub's endpoints about incidents: the list, one capsule, and its report page."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from aiohttp import web

from zmon.errors import UsageError
from zmon.hub.api.privacy import may_read, without_output
from zmon.hub.incidents import CapsuleStore
from zmon.hub.incidents.capsule_store import REPORT
from zmon.hub.incidents.report import CSP
from zmon.schema.api import IncidentList, IncidentRequest, IncidentsRequest, endpoints
from zmon.schema.incident import Capsule
from zmon.web.asker import Asker, asker_of, route_for
from zmon.web.connections import send
from zmon.web.responses import Refusal, problem
from zmon.web.server import route
from zmon.web.work_queue import WorkQueue


class IncidentAnswers:
    """The handlers of these endpoints. They read the disk in threads, so that the event loop goes on."""

    def __init__(self, store: CapsuleStore, large_answers: WorkQueue) -> None:
        """`large_answers`: the queue in which large answers wait for each other."""
        self._store, self._large_answers = store, large_answers

    def routes(self) -> list[web.RouteDef]:
        return [
            route(endpoints.INCIDENTS, self.incidents, turn=lambda _: self._large_answers.turn()),
            route_for(endpoints.INCIDENT, self.incident, turn=lambda _: self._large_answers.turn()),
            web.get("/api/v1/incidents/{id}/report.html", self.report),
        ]

    async def incidents(self, request: IncidentsRequest) -> IncidentList:
        """Return every incident on disk, newest first."""
        return IncidentList(await asyncio.to_thread(self._store.summaries))

    async def incident(self, request: IncidentRequest, asker: Asker) -> Capsule:
        """Return the content of one capsule.json, without what the asker may not read."""
        try:
            capsule = await asyncio.to_thread(self._store.read, request.id)
        except UsageError as error:
            raise Refusal(404, str(error)) from error
        if capsule is None:
            raise Refusal(404, _no_capsule(request.id))
        if may_read(asker, capsule.finding):
            return capsule
        return replace(capsule, finding=without_output(capsule.finding))

    async def report(self, request: web.Request) -> web.Response:
        """Return the report page of one incident."""
        asker = await asker_of(request)
        try:
            async with self._large_answers.turn():
                response = await self._page(request.match_info["id"], asker)
                await send(request, response)
                return response
        except Refusal as refusal:
            return problem(str(refusal), refusal.status)

    async def _page(self, incident_id: str, asker: Asker) -> web.Response:
        """Return the page from the disk. Raises Refusal: 404 if there is none, 403 if the asker may not read it."""
        try:
            page = await asyncio.to_thread((self._store.directory(incident_id) / REPORT).read_bytes)
            capsule = await asyncio.to_thread(self._store.read, incident_id)
        except UsageError as error:
            raise Refusal(404, str(error)) from error
        except OSError as error:
            raise Refusal(404, _no_capsule(incident_id)) from error
        if not may_read(asker, capsule.finding if capsule else None):
            who = f"an unknown user ({asker.reason})" if asker.uid is None else f"uid {asker.uid}"
            raise Refusal(403, f"{who} may not read what this job printed: `zmon incident` shows the rest")
        headers = {"Content-Security-Policy": CSP}
        return web.Response(body=page, content_type="text/html", charset="utf-8", headers=headers)


def _no_capsule(incident_id: str) -> str:
    return f"there is no capsule of {incident_id}: `zmon incident` lists all incidents"
