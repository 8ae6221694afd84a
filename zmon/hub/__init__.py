"""What goes on in the cluster: asks the agents, lines the ranks up, judges, publishes.

While all is well it asks every second; a long poll held open to every agent wakes it at once when one suspects
a rank. It holds no history but the findings: that is Prometheus' business.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Iterator
from typing import Any

import aiohttp
from aiohttp import web

from zmon.detectors import Detector
from zmon.detectors.suppression import Spoken, suppress
from zmon.errors import Unreachable
from zmon.hub.agent_link import FORGET_SECONDS, AgentLink
from zmon.hub.api.answers import Answers
from zmon.hub.api.incidents import IncidentAnswers
from zmon.hub.api.view import job_state, view
from zmon.hub.config import HubConfig
from zmon.hub.gathering import Gathering
from zmon.hub.incidents.collector import Incidents
from zmon.hub.job_state import JobStates
from zmon.hub.journal import Journal
from zmon.job.timeline import snapshots
from zmon.schema.agent import AgentReport
from zmon.schema.api import SnapshotRequest, SuspectsRequest, endpoints
from zmon.schema.finding import Finding
from zmon.schema.job import JobView
from zmon.schema.names import STALL
from zmon.schema.snapshot import Snapshot
from zmon.web import client

log = logging.getLogger("zmon.hub")

_NO_VERSION = -1  # of an agent's suspects: the hub has not seen any


class Hub:
    """The state of the cluster's hub."""

    def __init__(self, config: HubConfig) -> None:
        self._config = config
        self.detectors = config.detectors
        self.links = [AgentLink(url) for url in config.agents]
        self.journal = Journal(config.data_dir / "findings.jsonl")
        self.books = JobStates(config.data_dir)
        self.snapshots: tuple[Snapshot, ...] = ()
        self.failed: dict[tuple[str, str], str] = {}  # what, on which job, with which error
        self.pass_seconds = 0.0
        self.last_pass_time: float | None = None
        self._gathering = Gathering(config, self.links, self.journal, self.books)
        self.incidents = Incidents(config, self.links, self.journal, self._gathering)
        self._asked: dict[AgentLink, asyncio.Task[None]] = {}  # and not answered yet
        self._wake = asyncio.Event()

    @property
    def blind(self) -> bool:
        """Whether no agent answers: then nothing here is news, good or bad."""
        return not any(link.reachable for link in self.links)

    # -- loops -----------------------------------------------------------------------------------------

    async def listen(self, session: aiohttp.ClientSession, link: AgentLink) -> None:
        """Hold a long poll open to one agent for ever."""
        wait, version = self._config.wait_seconds, _NO_VERSION
        while True:
            try:
                request = SuspectsRequest(wait, version)
                answer = await client.ask(session, link.url, endpoints.SUSPECTS, request, wait + 5)
            except Unreachable:
                version = _NO_VERSION
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
            self.pass_seconds = time.monotonic() - begin
            stalled = any(finding.is_stall for finding in self.journal.active())
            alert = stalled or any(link.suspects for link in self.links)
            self._wake.clear()
            interval = self._config.alert_interval_seconds if alert else self._config.interval_seconds
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(interval):  # not wait_for, which may lose a cancellation (gh-86296)
                    await self._wake.wait()
            if alert:
                await asyncio.sleep(self._config.alert_interval_seconds / 2)  # suspects that flicker must not spin it

    async def _ask(self, session: aiohttp.ClientSession) -> None:
        """Ask all of them; the pass does not wait for one that fell silent, so that silence slows down no verdict."""
        room = asyncio.Semaphore(self._config.max_asked)  # an answer that waits for us to read it is not late
        for link in self.links:
            if link not in self._asked:
                self._asked[link] = asyncio.create_task(self._ask_one(session, link, room))
        if waited := [task for link, task in self._asked.items() if link.reachable or not link.failures]:
            await asyncio.wait(waited)
        done = {link: task for link, task in self._asked.items() if task.done()}
        for link, task in done.items():
            del self._asked[link]
            task.result()

    async def _ask_one(self, session: aiohttp.ClientSession, link: AgentLink, room: asyncio.Semaphore) -> None:
        config = self._config
        try:
            async with room:
                since = link.steps_since(0.9 * config.interval_seconds)
                request = SnapshotRequest(
                    since=-1 if since is None else since, about=config.about_records, plans=link.plans_version
                )
                report = await client.ask(session, link.url, endpoints.SNAPSHOT, request, config.agent_timeout_seconds)
        except Unreachable as error:
            if link.reachable:
                log.warning("%s", error)
            link.failed(str(error))
        else:
            link.heard(report, with_steps=since is not None)

    def _judge(self, session: aiohttp.ClientSession) -> None:
        """One pass over what the agents said last."""
        if self.blind:
            return
        now = time.time()
        reports = [link.report for link in self.links if link.report and link.reachable]
        silent = [link.report for link in self.links if link.report and not link.reachable]
        hardware = [window for link in self.links if (window := link.window())]
        lined_up = snapshots(reports, silent, [link.status() for link in self.links], now, hardware)
        self.snapshots = tuple(self._with_steps(snapshot, reports) for snapshot in lined_up)
        for snapshot in self.snapshots:
            self._conclude(snapshot, now)
            self._gathering.what_is_new(session, snapshot)
        if all(link.report or link.silent_seconds > FORGET_SECONDS for link in self.links):
            self._forget_gone_jobs(now)
        self.incidents.follow(session, self.snapshots, now)
        self.books.accounts.keep(snapshot.job_id for snapshot in self.snapshots)
        self.last_pass_time = now

    def _with_steps(self, snapshot: Snapshot, reports: list[AgentReport]) -> Snapshot:
        with self._apart("history", snapshot.job_id):
            stalled = bool(self.journal.of(snapshot.job_id, STALL))
            snapshot = self.books.of(snapshot).add(snapshot, reports, stalled)
            self.books.curves.learn(snapshot)
            state = job_state(snapshot, self.journal.of(snapshot.job_id, STALL))
            return self.books.with_efficiency(snapshot, state)
        return snapshot

    @contextlib.contextmanager
    def _apart(self, what: str, job_id: str) -> Iterator[None]:
        """What fails on one job keeps nothing else from being judged."""
        try:
            yield
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
            if self.failed.get((what, job_id)) != said:
                log.exception("%s fails on job %s", what, job_id)
            self.failed[what, job_id] = said
        else:
            self.failed.pop((what, job_id), None)

    def _conclude(self, snapshot: Snapshot, now: float) -> None:
        """What the detectors say of one job, each fault once."""
        verdicts: dict[str, tuple[Finding, ...]] = {}
        for detector in self.detectors:
            with self._apart(detector.name, snapshot.job_id):
                verdicts[detector.name] = detector.detect(snapshot)
        spoken = suppress(verdicts)
        for detector in self.detectors:
            if detector.name in verdicts:
                with self._apart(f"journal of {detector.name}", snapshot.job_id):
                    self._take(snapshot, detector, spoken, now)

    def _take(self, snapshot: Snapshot, detector: Detector, spoken: Spoken, now: float) -> None:
        """What one detector says of one job goes to the journal, and what it no longer says."""
        name, found = detector.name, spoken.findings[detector.name]
        for finding in found:
            if self.journal.conclude(finding, now, detector.separate):
                log.warning("%s %s: %s", finding.severity, finding.cause, finding.summary)
        if detector.separate or not found:
            known = () if name in spoken.resolved else self.journal.of(snapshot.job_id, name)
            unseen = [f for f in known if name in spoken.held or not detector.sees(snapshot, f)]
            self.journal.settle(snapshot.job_id, name, now, [f.id for f in (*found, *unseen)])

    def _forget_gone_jobs(self, now: float) -> None:
        """Every agent was heard: a job that none of them knows has been pruned, and nothing is left to be wrong."""
        known = {snapshot.job_id for snapshot in self.snapshots}
        for finding in self.journal.active():
            if finding.job_id not in known:
                self.journal.settle(finding.job_id, finding.detector, now)
        self.books.keep(known)
        self.failed = {key: said for key, said in self.failed.items() if key[1] in known}

    def jobs(self) -> list[JobView]:
        """Every job that an agent reports."""
        active = self.journal.active()
        return [
            view(snapshot, self.books, [f for f in active if f.job_id == snapshot.job_id])
            for snapshot in self.snapshots
        ]

    def app(self) -> web.Application:
        """The HTTP door, with the loops running behind it."""
        app = web.Application()
        app.add_routes([*Answers(self).routes(), *IncidentAnswers(self.incidents.folder).routes()])
        app.cleanup_ctx.append(self._run)
        return app

    async def _run(self, app: web.Application) -> Any:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
            tasks = [asyncio.create_task(self.judge_for_ever(session))]
            tasks += [asyncio.create_task(self.listen(session, link)) for link in self.links]
            yield
            self._gathering.cancel()
            self.books.accounts.save()
            for task in (*tasks, *self._asked.values()):
                task.cancel()
            await asyncio.gather(*tasks, *self._asked.values(), return_exceptions=True)
            await self.incidents.close()


__all__ = ["Hub", "HubConfig"]
