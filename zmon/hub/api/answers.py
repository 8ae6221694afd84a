"""What the hub answers over HTTP."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from aiohttp import web

import zmon
from zmon import detectors, metrics
from zmon.detectors.parts.verdict import rank_row
from zmon.errors import UsageError
from zmon.hub.api.plan import plan
from zmon.hub.api.scaling import asked, scaling
from zmon.hub.api.view import job_state
from zmon.schema.rank import RankState
from zmon.schema.snapshot import Snapshot
from zmon.web.server import json_response, problem

if TYPE_CHECKING:
    from zmon.hub import Hub

_LATE_SECONDS = 10.0  # of a pass: then the hub is not well


class Answers:
    """One method a question."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    def routes(self) -> list[web.RouteDef]:
        """Where each question is asked."""
        return [
            web.get("/metrics", self.get_metrics),
            web.get("/healthz", self.get_health),
            web.get("/api/v1/jobs", self.get_jobs),
            web.get("/api/v1/jobs/{job_id}/ranks", self.get_ranks),
            web.get("/api/v1/jobs/{job_id}/plan", self.get_plan),
            web.get("/api/v1/jobs/{job_id}/scaling", self.get_scaling),
            web.get("/api/v1/findings", self.get_findings),
            web.get("/api/v1/detectors", self.get_detectors),
        ]

    async def get_jobs(self, request: web.Request) -> web.Response:
        """What people and the dashboard look at first."""
        return json_response({"schema": 1, "blind": self._hub.blind, "jobs": self._hub.jobs()})

    async def get_ranks(self, request: web.Request) -> web.Response:
        """Every rank of one job as it was last seen, with what its last steps took it."""
        return self._of_job(request, lambda snapshot: {"ranks": ranks(snapshot)})

    async def get_plan(self, request: web.Request) -> web.Response:
        """What was planned for every rank of one job, beside what it is."""
        return self._of_job(request, plan)

    async def get_scaling(self, request: web.Request) -> web.Response:
        """How jobs of its name scale, and what a step should take at other sizes, as `zmon predict` says it."""
        try:
            query = asked(request.query, request.query.getall("what_if", []))
        except UsageError as error:
            return problem(str(error), 400)

        def answer(snapshot: Snapshot) -> dict[str, Any]:
            state = job_state(snapshot, self._hub.journal.of(snapshot.job_id, "stall"))
            return scaling(snapshot, state, *self._hub.books.curves.model(snapshot), query)

        return self._of_job(request, answer)

    def _of_job(self, request: web.Request, answer: Callable[[Snapshot], dict[str, Any]]) -> web.Response:
        job_id = request.match_info["job_id"]
        snapshot = next((s for s in self._hub.snapshots if s.job_id == job_id), None)
        if snapshot is None:
            return problem(f"no agent reports a job {job_id}", 404)
        return json_response({"schema": 1, "job_id": job_id, **answer(snapshot)})

    async def get_findings(self, request: web.Request) -> web.Response:
        """Newest first; `active=1` for what is wrong now, `job_id` for one job, `evidence=0` without evidence.

        Of a thousand ranks that is 300 kB each: who looks every two seconds at all that there were wants none of it.
        """
        job_id = request.query.get("job_id")
        only_active = request.query.get("active", "0") not in ("", "0")
        with_evidence = request.query.get("evidence", "1") not in ("", "0")
        found = [
            f
            for f in self._hub.journal.all()
            if (job_id is None or f.job_id == job_id) and (f.resolved is None or not only_active)
        ]
        if not with_evidence:
            found = [replace(f, evidence={}) for f in found]
        return json_response({"schema": 1, "findings": found})

    async def get_detectors(self, request: web.Request) -> web.Response:
        """Which detector can speak of which job, or why not, and the last error of one that fails."""
        failed = {what: said for (what, _), said in self._hub.failed.items()}
        told = [
            {"name": d.name, "failed": failed.get(d.name), "jobs": {s.job_id: d.inert(s) for s in self._hub.snapshots}}
            for d in self._hub.detectors
        ]
        return json_response({"schema": 1, "detectors": told})

    async def get_metrics(self, request: web.Request) -> web.Response:
        """For Prometheus."""
        hub, histograms = self._hub, {}
        for snapshot in hub.snapshots:
            account = hub.books.of(snapshot).account
            if account.histogram:
                histograms[snapshot.job_id] = (account.histogram, account.histogram_seconds)
        page = metrics.hub_page(
            hub.jobs(), histograms, hub.journal.published(), hub.pass_seconds, hub.last_pass_time, zmon.__version__
        )
        return web.Response(body=page, headers={"Content-Type": metrics.CONTENT_TYPE})

    async def get_health(self, request: web.Request) -> web.Response:
        """200 while it sees at least one agent and passes go through."""
        hub = self._hub
        late = hub.last_pass_time is None or time.time() - hub.last_pass_time > _LATE_SECONDS
        healthy, agents = not (hub.blind or late), [link.status() for link in hub.links]
        body = {
            "schema": 1, "version": zmon.__version__, "healthy": healthy, "findings_unwritten": hub.journal.error,
            "incidents_unwritten": hub.incidents.error,
            "agents": agents, "thresholds": detectors.changed(hub.detectors),
        }  # fmt: skip
        return json_response(body, 200 if healthy else 503)


def ranks(snapshot: Snapshot) -> list[dict[str, Any]]:
    """A row for each rank that somebody reported; what its last step took is None where no whole step is known."""
    last = snapshot.steps[-1] if snapshot.steps else None
    watched = {r.rank for r in snapshot.ranks}

    def row(state: RankState) -> dict[str, Any]:
        at = state.rank
        return {
            **rank_row(state),
            "watched": at in watched,
            "in_flight_seconds": state.in_flight.seconds if state.in_flight else None,
            "self_seconds": last.self_seconds[at] if last else None,
            "exposed_seconds": last.exposed_of(at) if last else None,
        }

    return [row(state) for state in snapshot.known]
