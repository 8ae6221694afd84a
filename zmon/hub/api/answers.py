"""The hub's read-only endpoints, except those about incidents: jobs, findings, detectors, health and metrics."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec
from aiohttp import web

import zmon
from zmon import detectors, metrics
from zmon.errors import UsageError
from zmon.hub.api.plan import plan_table
from zmon.hub.api.privacy import may_read, may_read_end, without_output
from zmon.hub.api.rank_page import rank_page, with_few_rows
from zmon.hub.api.scaling import scaling_answer, size_query
from zmon.hub.api.view import job_state
from zmon.job.restarts import launch_began
from zmon.job.time_account import Account
from zmon.schema import api
from zmon.schema.api import endpoints
from zmon.schema.evidence import Evidence
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.names import STALL
from zmon.web.asker import Asker, route_for
from zmon.web.live_config import reload_success
from zmon.web.responses import Refusal
from zmon.web.server import route
from zmon.web.work_queue import SharedPage, WorkQueue

if TYPE_CHECKING:
    from zmon.hub import Hub

_LATE_SECONDS = 10.0  # the hub is unhealthy if its last pass is longer ago
# Jobs on the /metrics page, each with about a hundred series. Agents know jobs for 15 minutes after their end, so a job
# that starts under a new id again and again would fill the page.
MAX_JOBS = 200


class Answers:
    """The handlers: each one takes a typed request and returns a typed answer."""

    def __init__(self, hub: Hub, large_answers: WorkQueue) -> None:
        self._hub = hub
        self._large_answers = large_answers  # the queue in which large answers wait for each other
        self._metrics_page = SharedPage(self.metrics_page)

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get(endpoints.METRICS, self.get_metrics),
            route(endpoints.HUB_HEALTH, self.health, lambda health: 200 if health.healthy else 503),
            route(endpoints.JOBS, self.jobs),
            route(endpoints.RANKS, self.ranks),
            route(endpoints.PLAN, self.plan),
            route(endpoints.SCALING, self.scaling, turn=lambda _: self._large_answers.turn()),
            route_for(
                endpoints.FINDINGS,
                self.findings,
                turn=lambda request: self._large_answers.turn() if request.evidence else nullcontext(),
            ),
            route_for(endpoints.ENDS, self.ends),
            route(endpoints.INTENTS, self.intents),
            route(endpoints.DETECTORS, self.detectors),
        ]

    async def jobs(self, request: api.JobsRequest) -> api.JobList:
        """Return a view of every job, and whether the hub is blind."""
        hub = self._hub
        num_answering = sum(link.reachable for link in hub.links)
        return api.JobList(hub.jobs(), hub.blind, hub.last_pass_time, len(hub.links), num_answering)

    async def ranks(self, request: api.RanksRequest) -> api.RankList:
        """Return ranks of one job as last reported, with the times of its last step."""
        findings = [finding for finding in self._hub.journal.active() if finding.job_id == request.job_id]
        try:
            return rank_page(self._snapshot(request.job_id), findings, request)
        except UsageError as error:
            raise Refusal(400, str(error)) from error

    async def plan(self, request: api.PlanRequest) -> api.PlanTable:
        """Return the planned and the measured amounts of every rank of one job."""
        return plan_table(self._snapshot(request.job_id))

    async def scaling(self, request: api.ScalingRequest) -> api.ScalingAnswer:
        """Return how jobs of this name scale, and the predicted step at other sizes, as `zmon predict` prints it."""
        try:
            query = size_query(request)
        except UsageError as error:
            raise Refusal(400, str(error)) from error
        snapshot = self._snapshot(request.job_id)
        state = job_state(snapshot, self._hub.journal.active_of(snapshot.job_id, STALL))
        return scaling_answer(snapshot, state, *self._hub.job_states.baselines.model(snapshot), query)

    def _snapshot(self, job_id: str) -> Snapshot:
        """Return the snapshot of a job. Raises Refusal (404) if no agent reports the job."""
        snapshot = next((s for s in self._hub.snapshots if s.job_id == job_id), None)
        if snapshot is None:
            raise Refusal(404, f"no agent reports a job {job_id}")
        return snapshot

    async def findings(self, request: api.FindingsRequest, asker: Asker) -> api.FindingList:
        """Return the findings of all jobs or of one, newest first, without what the asker may not read."""
        findings = [
            finding
            for finding in self._hub.journal.all()
            if request.job_id in (None, finding.job_id) and (finding.resolved is None or not request.active)
        ]
        if not request.evidence:
            findings = [replace(finding, evidence=Evidence()) for finding in findings]
        elif request.evidence_ranks >= 0:
            findings = [with_few_rows(finding, request.evidence_ranks) for finding in findings]
        return api.FindingList([f if may_read(asker, f) else without_output(f) for f in findings])

    async def ends(self, request: api.EndsRequest, asker: Asker) -> api.EndList:
        """Return the ends of launches of all jobs or of one, newest first, without what the asker may not read."""
        since = time.time() - request.seconds if request.seconds >= 0 else -math.inf
        ends = [end for end in self._hub.ends.all() if request.job_id in (None, end.job_id) and end.ended >= since]
        shown = ends if request.limit < 0 else ends[: request.limit]
        readable = (end if may_read_end(asker, end) else msgspec.structs.replace(end, clue="") for end in shown)
        return api.EndList([*readable], len(ends))

    async def intents(self, request: api.IntentsRequest) -> api.IntentList:
        """Return the intents about all jobs or about one, newest first, and the score of each cause."""
        intents = self._hub.intents
        if intents is None:
            return api.IntentList([], 0, has_policy=False)
        chosen = [intent for intent in intents.all() if request.job_id in (None, intent.job_id)]
        shown = chosen if request.limit < 0 else chosen[: request.limit]
        return api.IntentList(shown, len(chosen), intents.scores(), intents.stop_reasons)

    async def detectors(self, request: api.DetectorsRequest) -> api.DetectorList:
        """Return for each detector and job why it is inert, if it is, and the detector's last error."""
        errors = {name: error for (name, _), error in self._hub.errors.texts.items()}
        states = []
        for detector in self._hub.config.detectors:
            inert_reasons = {snapshot.job_id: detector.inert_reason(snapshot) for snapshot in self._hub.snapshots}
            states.append(api.DetectorState(detector.name, inert_reasons, errors.get(detector.name)))
        return api.DetectorList(states)

    async def health(self, request: api.HubHealthRequest) -> api.HubHealth:
        """Return the hub's health. It is healthy if an agent answers and the last pass is recent."""
        hub = self._hub
        detector_names = {detector.name for detector in hub.config.detectors}
        return api.HubHealth(
            healthy=not hub.blind and hub.seconds_since_pass <= _LATE_SECONDS,
            agents=[link.status() for link in hub.links],
            findings_unwritten=hub.journal.error,
            incidents_unwritten=hub.incidents.error,
            unwritten=hub.unwritten(),
            discovery=hub.discovery.errors,
            unsent=hub.notifier.unsent if hub.notifier else {},
            version=zmon.__version__,
            thresholds=detectors.changed(hub.config.detectors),
            alert_labels=[*hub.config.alert_labels.patterns],
            enforced=hub.config.policy.enforced if hub.config.policy else [],
            failed={part: error for (part, _), error in hub.errors.texts.items() if part not in detector_names},
        )

    async def get_metrics(self, request: web.Request) -> web.Response:
        return web.Response(body=await self._metrics_page.get(), headers={"Content-Type": metrics.CONTENT_TYPE})

    async def metrics_page(self) -> bytes:
        """Return the /metrics page. The counters of a job are those on disk, so that none falls after a restart."""
        hub = self._hub
        shown = exported_jobs(hub.snapshots)
        jobs = hub.reported_jobs()
        accounts = {job_id: hub.job_states.accounts.on_disk(job_id) or Account(job_id) for job_id in shown}
        state = metrics.HubPage(
            jobs=[
                replace(job, time=account.causes, gpu_seconds=account.gpu_seconds)
                for job in jobs
                if (account := accounts.get(job.job_id))
            ],
            histograms={job_id: (a.histogram, a.histogram_seconds) for job_id, a in accounts.items() if a.histogram},
            findings=hub.journal.published(),
            pass_seconds=hub.pass_seconds,
            last_pass_time=hub.last_pass_time,
            version=zmon.__version__,
            left_out={status.host: status.num_left_out for link in hub.links if (status := link.status()).host},
            max_labels=hub.config.max_job_labels,
            reload_success=reload_success(hub.config.web),
            left_out_jobs=[job for job in jobs if job.job_id not in shown],
            shard=hub.config.shard,
            ends=hub.ends.counts,
            notices=hub.notifier.counts if hub.notifier else {},
            recoveries=hub.ends.recoveries,
            labels_of_jobs=hub.journal.labels_of_jobs(),
            acts=hub.intents.counts if hub.intents else {},
            act_stops={name: stop.kind for name, stop in hub.intents.stops.items()} if hub.intents else {},
        )
        return metrics.hub_page(state)


def exported_jobs(snapshots: Sequence[Snapshot], max_jobs: int = MAX_JOBS) -> frozenset[str]:
    """Return the ids of the jobs that have series: those with a living rank, then the largest, then the newest."""
    if len(snapshots) > max_jobs:
        snapshots = sorted(snapshots, key=_importance, reverse=True)[:max_jobs]
    return frozenset(snapshot.job_id for snapshot in snapshots)


def _importance(snapshot: Snapshot) -> tuple[bool, int, float, str]:
    ranks = snapshot.reported_ranks
    return any(rank.alive for rank in ranks), len(ranks), launch_began(snapshot), snapshot.job_id
