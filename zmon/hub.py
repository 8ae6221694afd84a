"""What goes on in the cluster: asks the agents, lines the ranks up, judges, publishes.

While all is well it asks every two seconds; a long poll held open to every agent wakes it at once when one suspects
a rank. It holds no history but the findings: that is Prometheus' business.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

import zmon
from zmon import client, detectors, flight, metrics
from zmon.efficiency import JobTime
from zmon.errors import Unreachable
from zmon.journal import Journal
from zmon.link import FORGET_SECONDS, AgentLink
from zmon.records import AgentReport, Finding, JobView, Snapshot
from zmon.server import json_response
from zmon.stats import quantile
from zmon.timeline import snapshots

log = logging.getLogger("zmon.hub")


@dataclass(frozen=True)
class HubConfig:
    """Flags of `zmon hub`."""

    agents: tuple[str, ...]
    data_dir: Path
    interval_seconds: float = 2.0
    alert_interval_seconds: float = 0.25  # while a rank is suspected or a finding is active
    agent_timeout_seconds: float = 1.0
    wait_seconds: float = 30.0  # of a long poll
    max_stacks: int = 8  # ranks asked for their stacks per finding
    evidence_seconds: float = 5.0  # for all ranks of a job together
    max_asked: int = 64  # ranks at the same time


class Hub:
    """The state of the cluster's hub."""

    def __init__(self, config: HubConfig) -> None:
        self._config = config
        self._links = [AgentLink(url) for url in config.agents]
        self._journal = Journal(config.data_dir / "findings.jsonl")
        self._snapshots: tuple[Snapshot, ...] = ()
        self._accounts: dict[str, tuple[set[str], JobTime]] = {}  # by job: the ranks' run uids, where time went
        self._wake = asyncio.Event()
        self._pass_seconds = 0.0
        self._last_pass_time: float | None = None
        self._background: set[asyncio.Task[None]] = set()
        self._gathered: dict[str, tuple[Any, ...]] = {}  # by finding: the verdict that evidence was gathered for

    @property
    def blind(self) -> bool:
        """Whether no agent answers: then nothing here is news, good or bad."""
        return not any(link.reachable for link in self._links)

    # -- loops -----------------------------------------------------------------------------------------

    async def listen(self, session: aiohttp.ClientSession, link: AgentLink) -> None:
        """Hold a long poll open to one agent for ever."""
        version = None
        while True:
            try:
                answer = await client.get(
                    session,
                    f"{link.url}/api/v1/suspects",
                    client.Suspects,
                    self._config.wait_seconds + 5,
                    wait=self._config.wait_seconds,
                    since=version,
                )
            except Unreachable:
                version = None
                await asyncio.sleep(0.5)
                continue
            version, link.suspects = answer.version, tuple(answer.suspects)
            if link.suspects:
                self._wake.set()

    async def judge_for_ever(self, session: aiohttp.ClientSession) -> None:
        """Ask, judge, publish; at once when woken."""
        while True:
            begin = time.monotonic()
            try:
                await self._ask(session)
                self._judge(session)
            except Exception:
                log.exception("a pass failed")  # the heartbeat stops with it: that pages
            self._pass_seconds = time.monotonic() - begin
            stalled = any(finding.detector == "stall" for finding in self._journal.active())
            alert = stalled or any(link.suspects for link in self._links)
            self._wake.clear()
            interval = self._config.alert_interval_seconds if alert else self._config.interval_seconds
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(interval):  # not wait_for, which may lose a cancellation (gh-86296)
                    await self._wake.wait()
            if alert:
                await asyncio.sleep(self._config.alert_interval_seconds / 2)  # suspects that flicker must not spin it

    async def _ask(self, session: aiohttp.ClientSession) -> None:
        await asyncio.gather(*(self._ask_one(session, link) for link in self._links))

    async def _ask_one(self, session: aiohttp.ClientSession, link: AgentLink) -> None:
        try:
            report = await client.snapshot(session, link.url, link.cursor, self._config.agent_timeout_seconds)
        except Unreachable as error:
            if link.reachable:
                log.warning("%s", error)
            link.failed(str(error))
        else:
            link.heard(report)

    def _judge(self, session: aiohttp.ClientSession) -> None:
        """One pass over what the agents said last."""
        if self.blind:
            return
        now = time.time()
        reports = [link.report for link in self._links if link.report and link.reachable]
        silent = [link.report for link in self._links if link.report and not link.reachable]
        hardware = [window for link in self._links if (window := link.window())]
        self._snapshots = snapshots(reports, silent, [link.status() for link in self._links], now, hardware)
        for snapshot in self._snapshots:
            self._add_time(snapshot, reports)
            for detector in detectors.ALL:
                found = detector.detect(snapshot)
                for finding in found:
                    if self._journal.conclude(finding, now, detector.separate):
                        log.warning("%s %s: %s", finding.severity, finding.cause, finding.summary)
                if detector.separate or not found:
                    known = self._journal.of(snapshot.job_id, detector.name)
                    unseen = [finding for finding in known if not detector.sees(snapshot, finding)]
                    self._journal.settle(snapshot.job_id, detector.name, now, [f.id for f in (*found, *unseen)])
            self._gather_what_is_new(session, snapshot)
        if all(link.report or link.silent_seconds > FORGET_SECONDS for link in self._links):
            self._forget_gone_jobs(now)
        self._last_pass_time = now

    def _forget_gone_jobs(self, now: float) -> None:
        """Every agent was heard: a job that none of them knows has been pruned, and nothing is left to be wrong."""
        known = {snapshot.job_id for snapshot in self._snapshots}
        for finding in self._journal.active():
            if finding.job_id not in known:
                self._journal.settle(finding.job_id, finding.detector, now)
        self._accounts = {job_id: account for job_id, account in self._accounts.items() if job_id in known}

    def _add_time(self, snapshot: Snapshot, reports: list[AgentReport]) -> None:
        records = {uid: steps for report in reports for uid, steps in report.records.pop(snapshot.job_id, {}).items()}
        fresh = {r.rank: records[r.run_uid] for r in snapshot.ranks if r.run_uid in records}
        self._time(snapshot).add(fresh, snapshot.world_size)

    def _time(self, snapshot: Snapshot) -> JobTime:
        """The account of this start of the job: a new one when none of its ranks is of the start before."""
        uids = {r.run_uid for r in snapshot.known}
        account = self._accounts.get(snapshot.job_id)
        if account is None or not account[0] & uids:
            account = self._accounts[snapshot.job_id] = (uids, JobTime(metrics.STEP_SECONDS_BOUNDS))
        account[0].update(uids)
        return account[1]

    def _gather_what_is_new(self, session: aiohttp.ClientSession, snapshot: Snapshot) -> None:
        """Ask the ranks of a stalled job, behind the pass's back, when the finding is new or says another thing.

        Of other findings the ranks go on: their stacks say nothing, and asking costs them.
        """
        active = [finding for finding in self._journal.active() if finding.detector == "stall"]
        self._gathered = {f.id: self._gathered[f.id] for f in active if f.id in self._gathered}
        for finding in active:
            verdict = (finding.cause, finding.ranks)
            if finding.job_id == snapshot.job_id and self._gathered.get(finding.id) != verdict:
                self._gathered[finding.id] = verdict
                self._start(self._gather_evidence(session, snapshot, finding))

    async def _gather_evidence(self, session: aiohttp.ClientSession, snapshot: Snapshot, finding: Finding) -> None:
        """Stacks of the culprits, or of everybody where nobody is named, and what every rank has in flight."""
        config, urls = self._config, {link.report.host: link.url for link in self._links if link.report}
        alive = [r for r in snapshot.ranks if r.alive]
        ranks = [r.rank for r in alive if r.rank in finding.ranks or not finding.ranks][: config.max_stacks]
        asked = [(r, urls[r.host]) for r in alive]
        answers = await client.evidence(session, asked, ranks, config.evidence_seconds, config.max_asked)
        gathered: dict[str, Any] = {"in_flight": flight.table(snapshot, answers)}
        if ranks:
            gathered["stacks"] = {str(rank): flight.without(answers[rank]) for rank in ranks}
        self._journal.attach(finding.id, gathered)

    def _start(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    # -- answers ---------------------------------------------------------------------------------------

    def jobs(self) -> list[JobView]:
        """Every job that an agent reports."""
        return [self._view(snapshot) for snapshot in self._snapshots]

    def _view(self, snapshot: Snapshot) -> JobView:
        book = self._time(snapshot)
        active = [f for f in self._journal.active() if f.job_id == snapshot.job_id]
        lead = snapshot.known[0]
        return JobView(
            job_id=snapshot.job_id,
            attempt=snapshot.attempt,
            world_size=snapshot.world_size,
            ranks_seen=len(snapshot.ranks),
            state=job_state(snapshot, active),
            step=max(r.step for r in snapshot.known),
            step_seconds=quantile(book.recent_seconds, 0.5),
            step_seconds_p95=quantile(book.recent_seconds, 0.95),
            samples_per_second=book.samples_per_second,
            report=lead.report,
            time=book.causes,
            hosts=tuple(sorted({r.host for r in snapshot.known})),
            labels=lead.labels,
            findings=tuple(f.id for f in active),
        )

    async def get_jobs(self, request: web.Request) -> web.Response:
        """What people and the dashboard look at first."""
        return json_response({"schema": 1, "blind": self.blind, "jobs": self.jobs()})

    async def get_findings(self, request: web.Request) -> web.Response:
        """Newest first; `active=1` for what is wrong now, `job_id` for one job."""
        job_id = request.query.get("job_id")
        only_active = request.query.get("active", "0") not in ("", "0")
        found = [
            f
            for f in self._journal.all()
            if (job_id is None or f.job_id == job_id) and (f.resolved is None or not only_active)
        ]
        return json_response({"schema": 1, "findings": found})

    async def get_metrics(self, request: web.Request) -> web.Response:
        """For Prometheus."""
        histograms = {}
        for snapshot in self._snapshots:
            book = self._time(snapshot)
            histograms[snapshot.job_id] = (book.histogram, book.total_seconds)
        published = self._journal.published()
        page = metrics.hub_page(
            self.jobs(), histograms, published, self._pass_seconds, self._last_pass_time, zmon.__version__
        )
        return web.Response(body=page, headers={"Content-Type": metrics.CONTENT_TYPE})

    async def get_health(self, request: web.Request) -> web.Response:
        """200 while it sees at least one agent and passes go through."""
        late = self._last_pass_time is None or time.time() - self._last_pass_time > 10
        healthy, agents = not (self.blind or late), [link.status() for link in self._links]
        body = {"schema": 1, "healthy": healthy, "findings_unwritten": self._journal.error, "agents": agents}
        return json_response(body, 503 if self.blind or late else 200)

    def app(self) -> web.Application:
        """The HTTP door, with the loops running behind it."""
        app = web.Application()
        app.add_routes(
            [
                web.get("/metrics", self.get_metrics),
                web.get("/healthz", self.get_health),
                web.get("/api/v1/jobs", self.get_jobs),
                web.get("/api/v1/findings", self.get_findings),
            ]
        )
        app.cleanup_ctx.append(self._run)
        return app

    async def _run(self, app: web.Application) -> Any:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
            tasks = [asyncio.create_task(self.judge_for_ever(session))]
            tasks += [asyncio.create_task(self.listen(session, link)) for link in self._links]
            yield
            for task in (*tasks, *self._background):
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def job_state(snapshot: Snapshot, active: list[Finding]) -> str:
    """One word for a job: what most of its ranks do, unless it stalled or is over."""
    if not snapshot.ranks:
        return "unknown"
    stalls = [f.cause for f in active if f.detector == "stall"]
    alive = [r.activity for r in snapshot.ranks if r.alive and r.activity != "done"]
    if alive and any(cause != "rank_exited" for cause in stalls):
        return "stalled"
    if all(r.activity == "done" for r in snapshot.ranks) and not stalls:
        return "done"
    if not alive:
        return "exited"
    return Counter(alive).most_common(1)[0][0]
