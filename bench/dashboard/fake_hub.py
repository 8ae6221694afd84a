"""Answers like the hub of the job that is played: same routes, same fields, same sizes; no two looks are alike."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import asdict, replace
from typing import Any

from aiohttp import web
from multidict import MultiMapping

import zmon
from bench.dashboard import concluded
from bench.dashboard.scene import JOB, OPS, PLAYED_SECONDS, SAMPLES, SLOW, STEP_SECONDS, Scene, sources
from zmon import detectors
from zmon.detectors.parts.verdict import rank_row
from zmon.hub.api.scaling import asked
from zmon.hub.incidents.record import Brief
from zmon.scaling.fit import Model, fit
from zmon.scaling.size_table import find, told
from zmon.scaling.what_if import CHANGES
from zmon.schema.agent import AgentStatus
from zmon.schema.job import JobView
from zmon.web.server import json_response

OTHER_JOBS = 7
INCIDENTS = 30
_DAY = 86400.0


class FakeHub:
    """Everything the dashboard asks for."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._finding = concluded.finding(scene)
        self._job = concluded.job(scene, SLOW)
        self._ranks = [scene.rank(SLOW, rank) for rank in range(scene.num_ranks)]
        model = fit(concluded.curve(scene).points, tuple(OPS))
        assert isinstance(model, Model), model
        self._model = model

    def app(self) -> web.Application:
        """The HTTP door."""
        app = web.Application()
        app.add_routes(
            [
                web.get("/healthz", self.get_health),
                web.get("/api/v1/jobs", self.get_jobs),
                web.get("/api/v1/jobs/{job_id}/ranks", self.get_ranks),
                web.get("/api/v1/jobs/{job_id}/scaling", self.get_scaling),
                web.get("/api/v1/findings", self.get_findings),
                web.get("/api/v1/detectors", self.get_detectors),
                web.get("/api/v1/incidents", self.get_incidents),
                web.get("/api/v1/incidents/{id}/report.html", self.get_report),
            ]
        )
        return app

    async def get_health(self, request: web.Request) -> web.Response:
        """All agents answer."""
        status = sources(time.time())
        agents = [
            AgentStatus(f"http://{host}:9780", host, True, 0.0, None, status, zmon.__version__)
            for host in self._scene.hosts
        ]
        return json_response({"schema": 1, "version": zmon.__version__, "healthy": True, "agents": agents})

    async def get_jobs(self, request: web.Request) -> web.Response:
        """The one that is looked at, and some beside it."""
        lasted = (time.time() - self._scene.start) / PLAYED_SECONDS  # charts begin where the job did
        spent = {cause: seconds * lasted for cause, seconds in self._job.time.items()}
        report = {"loss": 0.45 + 0.01 * random.random()}
        job = replace(self._job, step=self._step(), time=spent, report=report)
        others = [_other(job, number) for number in range(OTHER_JOBS)]
        return json_response({"schema": 1, "blind": False, "jobs": [job, *others]})

    async def get_ranks(self, request: web.Request) -> web.Response:
        """A row a rank; made anew each time, as a row that never moves would be sent to a browser only once."""
        step = self._step()
        rows = [
            {
                **rank_row(replace(state, step=step, state_seconds=0.1 * random.random())),
                "watched": True,
                "in_flight_seconds": 0.05 * random.random(),
                "self_seconds": STEP_SECONDS[SLOW] * (0.9 if state.rank == self._scene.culprit else 0.35),
                "exposed_seconds": 0.15 + 0.1 * random.random(),
            }
            for state in self._ranks
        ]
        return json_response({"schema": 1, "job_id": JOB, "ranks": rows})

    async def get_scaling(self, request: web.Request) -> web.Response:
        """As the hub predicts, from what was recorded of sizes up to the job's own."""
        curve, ranks = concluded.curve(self._scene), self._scene.num_ranks
        what_ifs = asked(request.query, _all(request.query, "what_if")).what_ifs
        sizes = [point.ranks for point in curve.points] + [2 * ranks, 4 * ranks, 8 * ranks]
        found = find(self._model, [(size, SAMPLES * size) for size in sizes], what_ifs)
        points = [
            asdict(point) | {"samples_per_second": point.samples / point.seconds, "sent_bytes": None}
            for point in curve.points
        ]
        rate = SAMPLES * ranks / STEP_SECONDS[SLOW]
        answer = {
            "name": JOB,
            "points": points,
            "now": {
                "ranks": ranks, "samples": SAMPLES * ranks, "seconds": STEP_SECONDS[SLOW], "samples_per_second": rate,
            },
            "unknown": "",
            "sizes": [told(*one) | {"efficiency": {"ratio": 0.8, "scaling": "weak"}} for one in found],
            "what_ifs": {key: says for key, (says, _) in CHANGES.items()},
        }  # fmt: skip
        return json_response({"schema": 1, "job_id": JOB, **answer})

    async def get_findings(self, request: web.Request) -> web.Response:
        """The one that stands; of the job also what was before."""
        before = replace(
            self._finding, id="fedcba9876543210", onset=self._scene.stretches[0][0][0],
            detected=self._scene.stretches[0][0][0] + 20, resolved=self._scene.stretches[0][0][1],
        )  # fmt: skip
        found = [self._finding, *([] if "active" in request.query else [before])]
        if request.query.get("evidence") == "0":
            found = [replace(finding, evidence={}) for finding in found]
        return json_response({"schema": 1, "findings": found})

    async def get_detectors(self, request: web.Request) -> web.Response:
        """All can speak."""
        every = [{"name": one.name, "failed": None, "jobs": {JOB: None}} for one in detectors.ALL]
        return json_response({"schema": 1, "detectors": every})

    async def get_incidents(self, request: web.Request) -> web.Response:
        """One a day."""
        of = self._finding
        briefs = [
            Brief(
                f"{number:016x}", JOB, of.detector, of.cause, of.severity, of.ranks, of.hosts, of.onset - number * _DAY,
                of.detected - number * _DAY, of.summary, of.onset - number * _DAY + 600 if number else None, 12.5, "/x",
            )
            for number in range(INCIDENTS)
        ]  # fmt: skip
        return json_response({"schema": 1, "incidents": briefs})

    async def get_report(self, request: web.Request) -> web.Response:
        """About as long as a real one."""
        return web.Response(text="<h1>what was kept</h1>" + "<p>one line of it</p>" * 5000, content_type="text/html")

    def _step(self) -> int:
        return 86_000 + int((time.time() - self._scene.now) / STEP_SECONDS[SLOW])


def play(scene: Scene, port: int) -> None:
    """Answer until ended."""

    async def run() -> None:
        runner = web.AppRunner(FakeHub(scene).app(), access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        await asyncio.Event().wait()

    asyncio.run(run())


def _other(job: JobView, number: int) -> JobView:
    return replace(job, job_id=f"{JOB}-{number}", findings=(), world_size=64, ranks_seen=64, hosts=())


def _all(query: MultiMapping[Any], name: str) -> list[str]:
    return query.getall(name, [])
