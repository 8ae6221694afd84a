"""A simulated hub with the routes that the dashboard uses, and with answers as large as those of a real hub.

The values of jobs and ranks change with every request. Findings, detectors, scaling, incidents and the report are
constant.
"""

from __future__ import annotations

import random
import time
from dataclasses import replace

import msgspec
from aiohttp import web

import zmon
from bench.cluster import sources
from bench.dashboard import hub_answers
from bench.dashboard.scene import JOB, OPS, SAMPLES, SIMULATED_SECONDS, SLOW, STEP_SECONDS, Scene
from zmon import detectors
from zmon.hub.api.rank_page import rank_page, with_few_rows
from zmon.hub.api.scaling import curve_point
from zmon.job.headline import with_headline
from zmon.scaling.fit import Model, fit
from zmon.scaling.size_table import predict_sizes, size_row
from zmon.scaling.what_if import CHANGES
from zmon.schema.api import (
    DetectorList,
    DetectorsRequest,
    DetectorState,
    EfficiencyAnswer,
    FindingList,
    FindingsRequest,
    HubHealth,
    HubHealthRequest,
    IncidentList,
    IncidentsRequest,
    JobList,
    JobsRequest,
    RankList,
    RanksRequest,
    ScalingAnswer,
    ScalingRequest,
    SizeNow,
    endpoints,
)
from zmon.schema.evidence import Evidence
from zmon.schema.incident import IncidentSummary
from zmon.schema.job import JobView
from zmon.schema.job_snapshot import AgentStatus, Snapshot
from zmon.web.server import route

_NUM_OTHER_JOBS = 7
_NUM_INCIDENTS = 30
_DAY_SECONDS = 86400.0


class FakeHub:
    """A hub with every endpoint that the dashboard uses."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._finding = hub_answers.finding(scene)
        self._job = hub_answers.job(scene, SLOW)
        ranks = tuple(scene.rank(SLOW, rank) for rank in range(scene.num_ranks))
        self._snapshot = Snapshot(
            JOB, float(scene.now), attempt=0, world_size=scene.num_ranks, ranks=ranks, missing=(), unwatched=(),
            agents=(),
        )  # fmt: skip
        model = fit(hub_answers.curve(scene).points, tuple(OPS))
        assert isinstance(model, Model), model
        self._model = model

    def app(self) -> web.Application:
        """Return the HTTP application."""
        app = web.Application()
        app.add_routes(
            [
                route(endpoints.HUB_HEALTH, self.health),
                route(endpoints.JOBS, self.jobs),
                route(endpoints.RANKS, self.ranks),
                route(endpoints.SCALING, self.scaling),
                route(endpoints.FINDINGS, self.findings),
                route(endpoints.DETECTORS, self.detectors),
                route(endpoints.INCIDENTS, self.incidents),
                web.get("/api/v1/incidents/{id}/report.html", self.get_report),
            ]
        )
        return app

    async def health(self, request: HubHealthRequest) -> HubHealth:
        """Answer that all agents are healthy."""
        status = sources(time.time())
        version = zmon.__version__
        agents = [
            AgentStatus(
                f"http://{host}:9780", host, reachable=True, silent_seconds=0.0, sources=status, version=version
            )
            for host in self._scene.hosts
        ]
        return HubHealth(True, agents, version=version)

    async def jobs(self, request: JobsRequest) -> JobList:
        """Answer with the job and seven other jobs; steps, time accounts and losses change."""
        ratio = (time.time() - self._scene.start) / SIMULATED_SECONDS  # charts begin at the start of the job
        account = {cause: seconds * ratio for cause, seconds in self._job.time.items()}
        report: dict[str, float | None] = {"loss": 0.45 + 0.01 * random.random()}
        job = replace(self._job, step=self._step(), time=account, report=report)
        jobs = [job, *(_other_job(job, number) for number in range(_NUM_OTHER_JOBS))]
        return JobList([with_headline(view, [self._finding]) for view in jobs], blind=False)

    async def ranks(self, request: RanksRequest) -> RankList:
        """Answer as the hub does. All rows change, because the browser gets unchanged rows only once."""
        step = self._step()
        page = rank_page(self._snapshot, [self._finding], request)
        rows = [
            msgspec.structs.replace(
                row,
                step=step,
                state_seconds=0.1 * random.random(),
                in_flight_seconds=0.05 * random.random(),
                self_seconds=STEP_SECONDS[SLOW] * (0.9 if row.rank == self._scene.culprit else 0.35),
                exposed_seconds=0.15 + 0.1 * random.random(),
            )
            for row in page.ranks
        ]
        return msgspec.structs.replace(page, ranks=rows)

    async def scaling(self, request: ScalingRequest) -> ScalingAnswer:
        """Answer with predictions as the hub does, for recorded sizes and for 2, 4 and 8 times the size of the job."""
        curve = hub_answers.curve(self._scene)
        ranks = self._scene.num_ranks
        numbers = [point.ranks for point in curve.points] + [2 * ranks, 4 * ranks, 8 * ranks]
        sizes = predict_sizes(self._model, [(number, SAMPLES * number) for number in numbers], request.what_if)
        rate = SAMPLES * ranks / STEP_SECONDS[SLOW]
        return ScalingAnswer(
            job_id=JOB,
            name=JOB,
            points=[curve_point(point) for point in curve.points],
            now=SizeNow(ranks, SAMPLES * ranks, STEP_SECONDS[SLOW], rate),
            unknown="",
            sizes=[msgspec.structs.replace(size_row(size), efficiency=EfficiencyAnswer(0.8, "weak")) for size in sizes],
            what_ifs={key: meaning for key, (meaning, _) in CHANGES.items()},
        )

    async def findings(self, request: FindingsRequest) -> FindingList:
        """Answer with the open finding and, unless only active findings are requested, an earlier resolved finding."""
        slow = self._scene.earlier_slow
        resolved = replace(
            self._finding, id="fedcba9876543210", onset=slow.begin, detected=slow.begin + hub_answers.DETECTION_SECONDS,
            resolved=slow.end,
        )  # fmt: skip
        findings = [self._finding, *([] if request.active else [resolved])]
        if not request.evidence:
            findings = [replace(finding, evidence=Evidence()) for finding in findings]
        elif request.evidence_ranks >= 0:
            findings = [with_few_rows(finding, request.evidence_ranks) for finding in findings]
        return FindingList(findings)

    async def detectors(self, request: DetectorsRequest) -> DetectorList:
        """Answer that all detectors are armed."""
        return DetectorList([DetectorState(detector.name, {JOB: None}) for detector in detectors.ALL])

    async def incidents(self, request: IncidentsRequest) -> IncidentList:
        """Answer with the incidents of the last 30 days, one for each day. Only the last is open."""
        last = self._finding
        summaries = []
        for number in range(_NUM_INCIDENTS):
            onset = last.onset - number * _DAY_SECONDS
            detected = last.detected - number * _DAY_SECONDS
            resolved = onset + 600 if number else None
            summaries.append(
                IncidentSummary(
                    id=f"{number:016x}", job_id=JOB, detector=last.detector, cause=last.cause, severity=last.severity,
                    ranks=last.ranks, hosts=last.hosts, onset=onset, detected=detected, summary=last.summary,
                    resolved=resolved, lost_gpu_hours=12.5, path="/x",
                )
            )  # fmt: skip
        return IncidentList(summaries)

    async def get_report(self, request: web.Request) -> web.Response:
        """Answer with a report of about 125 kB."""
        return web.Response(text="<h1>incident</h1>" + "<p>a line of evidence</p>" * 5000, content_type="text/html")

    def _step(self) -> int:
        return 86_000 + int((time.time() - self._scene.now) / STEP_SECONDS[SLOW])


def serve(scene: Scene, port: int) -> None:
    """Answer requests until the process ends."""
    app = FakeHub(scene).app()
    web.run_app(app, host="127.0.0.1", port=port, access_log=None, print=None, handle_signals=False)


def _other_job(job: JobView, number: int) -> JobView:
    return replace(job, job_id=f"{JOB}-{number}", findings=(), world_size=64, ranks_seen=64, hosts=())
