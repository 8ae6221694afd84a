"""What the hub answers about incidents: the list, one of them, its page."""

from __future__ import annotations

import asyncio

from aiohttp import web

from zmon.errors import UsageError
from zmon.hub.incidents import Folder
from zmon.hub.incidents.folder import REPORT
from zmon.hub.incidents.report import CSP
from zmon.web.server import json_response, problem


class IncidentAnswers:
    """One method a question; the disk is read in a thread."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def routes(self) -> list[web.RouteDef]:
        """Where each question is asked."""
        return [
            web.get("/api/v1/incidents", self.get_incidents),
            web.get("/api/v1/incidents/{id}", self.get_incident),
            web.get("/api/v1/incidents/{id}/report.html", self.get_report),
        ]

    async def get_incidents(self, request: web.Request) -> web.Response:
        """Newest first."""
        return json_response({"schema": 1, "incidents": await asyncio.to_thread(self._folder.briefs)})

    async def get_incident(self, request: web.Request) -> web.Response:
        """All of capsule.json."""
        try:
            capsule = await asyncio.to_thread(self._folder.read, request.match_info["id"])
        except UsageError as error:
            return problem(str(error), 404)
        return _nothing(request) if capsule is None else json_response(capsule)

    async def get_report(self, request: web.Request) -> web.Response:
        """The page."""
        try:
            place = self._folder.place(request.match_info["id"]) / REPORT
            page = await asyncio.to_thread(place.read_bytes)
        except UsageError as error:
            return problem(str(error), 404)
        except OSError:
            return _nothing(request)
        headers = {"Content-Security-Policy": CSP, "X-Content-Type-Options": "nosniff"}
        return web.Response(body=page, content_type="text/html", charset="utf-8", headers=headers)


def _nothing(request: web.Request) -> web.Response:
    return problem(f"no capsule of {request.match_info['id']}: `zmon incident` lists those there are", 404)
