"""The hub: the daemon of a cluster that asks the agents, runs the detectors and publishes findings.

The hub makes a pass, waits a second, and makes the next pass. It also keeps a long poll open to every agent. An agent
that suspects a rank answers the poll, and the hub makes the next pass at once. The hub stores no time series: these are
in Prometheus.

In the order of a pass: `agent_poller` asks the agents, and `agent_link` keeps the last answer of each. `judge` runs the
detectors on each job, with what `job_state` keeps about its launch. `journal` opens and resolves findings, and
`end_recorder` records the ends of launches. `stall_evidence` gathers evidence about stalls, and `incidents/` stores it.
`acts/` carries out the acts that the site allows, and `zmon.notify` sends notices. `accounts`, `baseline_store`,
`pauses`, `ended_jobs`, `ends` and `job_agents` keep their records on disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import aiohttp
from aiohttp import web

from zmon.detectors.stall import Stall
from zmon.detectors.unread import UNREAD
from zmon.hub import ended_jobs, ends, job_agents, unread_jobs
from zmon.hub.acts import Intents
from zmon.hub.agent_link import FORGET_SECONDS
from zmon.hub.agent_poller import AgentPoller
from zmon.hub.api.answers import Answers
from zmon.hub.api.incidents import IncidentAnswers
from zmon.hub.api.view import view
from zmon.hub.config import HubConfig
from zmon.hub.discovery import Discovery
from zmon.hub.end_recorder import EndRecorder
from zmon.hub.ended_jobs import EndedJobs
from zmon.hub.ends import Ends
from zmon.hub.incidents.collector import Incidents
from zmon.hub.job_agents import JobAgents
from zmon.hub.job_state import JobStates
from zmon.hub.journal import Journal
from zmon.hub.judge import Judge
from zmon.hub.last_output import LastOutput
from zmon.hub.memory import FreeMemory, limit_cycle_searches, trim_of_libc
from zmon.hub.part_errors import PartErrors
from zmon.hub.stall_evidence import EvidenceGatherer
from zmon.hub.standing_ranks import StandingRanks
from zmon.hub.wall_clock import WallClock
from zmon.job.headline import with_headline
from zmon.job.restarts import is_over
from zmon.job.shared_ids import SharedIds, renamed, renamed_window
from zmon.job.timeline import snapshots, superseded
from zmon.notify import FILE as NOTICES_FILE
from zmon.notify import Notifier
from zmon.schema.finding import Finding
from zmon.schema.job import JobView
from zmon.schema.job_snapshot import Snapshot
from zmon.web import http_client
from zmon.web.server import application
from zmon.web.work_queue import WorkQueue

log = logging.getLogger("zmon.hub")


class Hub:
    """The hub of a cluster: its state, its loops and its HTTP application."""

    def __init__(self, config: HubConfig) -> None:
        self.config = config
        self._agents = AgentPoller(config)
        self.links = self._agents.links
        self.discovery = Discovery(config.sources)
        self.journal = Journal(config.data_dir / "findings.jsonl")
        self.job_states = JobStates(config.data_dir)
        self.ended_jobs = EndedJobs(config.data_dir / ended_jobs.FOLDER)
        self.ends = Ends(config.data_dir / ends.FILE)
        self.notifier = Notifier(config.recipients, config.data_dir / NOTICES_FILE) if config.recipients else None
        self.intents = Intents(config.policy, config.data_dir, self.links) if config.policy else None
        self.snapshots: tuple[Snapshot, ...] = ()
        self._views: list[JobView] | None = None  # None: not made since the last pass
        self.errors = PartErrors()
        self.pass_seconds = 0.0  # duration of the last pass
        self.last_pass_time: float | None = None  # unix time of the last pass in which an agent answered
        self._shared_ids = SharedIds()
        self._job_agents = JobAgents(config.data_dir / job_agents.FOLDER)
        configured_stall = next((detector for detector in config.detectors if isinstance(detector, Stall)), None)
        stall = configured_stall or Stall()  # evidence is gathered by its rules, also if this hub does not run it
        self._stall_evidence = EvidenceGatherer(config, self.links, self.journal, self.job_states, stall.stands_still)
        self._last_output = LastOutput(config, self.links)
        self._end_recorder = EndRecorder(
            self.ended_jobs, self.ends, self.journal, self.job_states, self._last_output, self.intents,
            configured_stall, self.errors,
        )  # fmt: skip
        self.judge = Judge(config, self.journal, self.job_states, self.ended_jobs, self._end_recorder, self.errors)
        self._standing_ranks = StandingRanks(config, self.links, self.job_states, stall)
        self.incidents = Incidents(config, self.links, self.journal, self._stall_evidence)
        self._free_memory = FreeMemory(trim_of_libc())
        self._started_at = time.monotonic()
        self._clock = WallClock()
        self._passed_at = -math.inf  # monotonic seconds at the end of the last pass in which an agent answered

    @property
    def blind(self) -> bool:
        """Return True if no agent answers. A blind hub opens and resolves nothing."""
        return not any(link.reachable for link in self.links)

    async def run_passes(self, session: aiohttp.ClientSession) -> None:
        """Make passes for ever, and wait for the interval after each. A report of a suspect ends this wait early."""
        while True:
            begin = time.monotonic()
            try:
                await self._agents.ask(session)
                self._complete_pass(session)
            except Exception:  # of any part: the next pass may succeed
                log.exception("a pass of the hub failed")  # an alert fires on the age of the last pass
            self._free_memory.give_back()
            limit_cycle_searches(sum(len(snapshot.ranks) for snapshot in self.snapshots))
            self.pass_seconds = time.monotonic() - begin
            await self._wait_for_next_pass()

    async def _wait_for_next_pass(self) -> None:
        """Wait for the interval, which is shorter while a rank is suspected or a job is stalled; see `run_passes`."""
        is_stalled = any(finding.is_stall for finding in self.journal.active())
        is_alert = is_stalled or any(link.suspects for link in self.links)
        self._agents.suspected.clear()
        interval = self.config.alert_interval_seconds if is_alert else self.config.interval_seconds
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(interval):  # wait_for may lose a cancellation (gh-86296)
                await self._agents.suspected.wait()
        if is_alert:
            await asyncio.sleep(self.config.alert_interval_seconds / 2)  # limits passes when suspects flicker

    def _complete_pass(self, session: aiohttp.ClientSession) -> None:
        """Judge the jobs by the agents' answers, gather evidence, act, and tell people."""
        if self.blind:
            return
        now, clock_moved = self._clock.read()
        if clock_moved:
            self._move_times(clock_moved)
        self.evaluate(now)
        for snapshot in self.snapshots:
            self._stall_evidence.update(session, snapshot)
            self._standing_ranks.update(session, snapshot)
        self._last_output.update(session, self.snapshots)
        had_time_to_find_agents = time.monotonic() - self._started_at > FORGET_SECONDS
        if self.discovery.is_complete or had_time_to_find_agents:
            self._forget_gone_jobs(now)
        self.ended_jobs.forget_old(now, {snapshot.job_id for snapshot in self.snapshots})
        self.ends.maintain(now)
        self.incidents.update(session, self.snapshots, now)
        if self.intents is not None:
            with self.errors.isolated("acts"):
                self.intents.update(session, self.journal.active(), self.snapshots, now, clock_moved)
        self._notify(now)
        self.journal.retry(now)
        self.job_states.accounts.maintain(snapshot.job_id for snapshot in self.snapshots)
        self.last_pass_time, self._views = now, None
        self._passed_at = time.monotonic()

    def _move_times(self, seconds: float) -> None:
        """Move all times that are compared with later ones, because the clock was set by these seconds."""
        log.warning(
            "the clock of this host was set by %+.1f s; times of findings before that are by the old one", seconds
        )
        for part in (self.journal, self.incidents, self.job_states, self.ended_jobs, self.notifier):
            if part is not None:
                part.move_times(seconds)

    def _notify(self, now: float) -> None:
        """Notify the recipients of the site of new ends, of acts, and of findings that opened or resolved."""
        new_ends = self.ends.take_new()
        new_acts = self.intents.take_new() if self.intents else []
        self.incidents.record_acts(new_acts, now)
        if self.notifier is not None:
            labels = {snapshot.job_id: snapshot.reported_ranks[0].labels for snapshot in self.snapshots}
            jobs_over = {snapshot.job_id for snapshot in self.snapshots if is_over(snapshot)}
            self.notifier.update(self.journal.active(), labels, jobs_over, new_ends, now, new_acts)

    @property
    def seconds_since_pass(self) -> float:
        """The time since the last pass in which an agent answered; infinite before the first one."""
        return time.monotonic() - self._passed_at

    def evaluate(self, now: float) -> None:
        """Run the detectors on the agents' latest reports; `now` is unix time. At least one agent must answer."""
        reports = [report for link in self.links if (report := link.present_report())]
        silent_reports = [report for link in self.links if (report := link.silent_report())]
        names = self._shared_ids.names(reports, silent_reports)
        reports = [renamed(report, names) for report in reports]
        silent_reports = [renamed(report, names) for report in silent_reports]
        hardware = [renamed_window(window, names) for link in self.links if (window := link.window())]
        jobs = snapshots(reports, silent_reports, [link.status() for link in self.links], now, hardware)
        self._end_recorder.update_superseded(superseded(reports, jobs, now))
        self.snapshots = tuple(self.judge.judge_job(snapshot, reports, now) for snapshot in jobs)
        unread_jobs.update(self.journal, self.links, now)
        self._views = None

    def _forget_gone_jobs(self, now: float) -> None:
        """Resolve the findings of jobs that no agent reports, and forget these jobs.

        Call it only if all agents are known. A job is gone if no agent reports it, and no agent that is still to answer
        may have it.
        """
        reported = {snapshot.job_id for snapshot in self.snapshots}
        active = [finding for finding in self.journal.active() if finding.detector != UNREAD]
        self._job_agents.update(self.links, (finding.job_id for finding in active))
        unreported = {finding.job_id for finding in active} - reported
        gone = {job_id for job_id in unreported if not self._job_agents.may_have(self.links, job_id)}
        for finding in active:
            if finding.job_id in gone:
                self.journal.resolve(finding.job_id, finding.detector, now)
        self.job_states.retain(reported)
        self.errors.retain(reported)

    def unwritten(self) -> dict[str, str]:
        """Return the write errors of the hub, by what it cannot write; those of findings and incidents are separate."""
        states = self.job_states
        errors = {
            "time accounts": states.accounts.error,
            "agents of jobs": self._job_agents.error,
            "baselines": states.baselines.error,
            "ended jobs": self.ended_jobs.error,
            "ends of launches": self.ends.error,
            "pauses": states.pauses.store.error,
            "intents": self.intents.error if self.intents else None,
        }
        return {part: error for part, error in errors.items() if error}

    def reported_jobs(self) -> list[JobView]:
        """Return a view of every job that an agent reports; made once for each pass."""
        if self._views is None:
            active, now = self.journal.active(), time.time()
            self._views = [self._view(snapshot, active, now) for snapshot in self.snapshots]
        return self._views

    def _view(self, snapshot: Snapshot, active: Sequence[Finding], now: float) -> JobView:
        job = view(snapshot, self.job_states, [f for f in active if f.job_id == snapshot.job_id])
        return with_headline(replace(job, ended=self.ended_jobs.ended(snapshot.job_id, now)), active)

    def jobs(self) -> list[JobView]:
        """Return a view of every job that an agent reports, and of those that a fault ended within the last day."""
        reported, active = self.reported_jobs(), self.journal.active()
        ended = self.ended_jobs.views(time.time(), {job.job_id for job in reported})
        return [*reported, *(with_headline(job, active) for job in ended)]

    def app(self) -> web.Application:
        """Return the HTTP application; the hub's loops run while it is served."""
        app = application(self.config.allowed_hosts, self.config.web, lambda: self.last_pass_time is not None)
        large = WorkQueue()
        incidents = IncidentAnswers(self.incidents.store, large)
        app.add_routes([*Answers(self, large).routes(), *incidents.routes()])
        app.cleanup_ctx.append(self._run)
        return app

    async def _run(self, app: web.Application) -> AsyncIterator[None]:
        """Run the loops while the application is served, and end them after that."""
        config = self.config
        if config.http and config.http.credentials_key and config.max_agents > 1:
            log.warning(
                "each agent sees the %s of --http-config and can ask the others with it: show agents a certificate",
                config.http.credentials_key,
            )
        async with http_client.session(config.http, config.max_connections, socket=config.socket) as session:
            loops = (self.run_passes(session), self._agents.follow(self.discovery, session))
            tasks = [asyncio.create_task(loop) for loop in loops]
            self._agents.start(session)
            yield
            for gatherer in (self._stall_evidence, self._standing_ranks, self._last_output):
                gatherer.cancel()
            self.job_states.accounts.save()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._agents.close()
            await self.incidents.close()
            if self.intents is not None:
                await self.intents.close()
            if self.notifier is not None:
                self.notifier.close()


__all__ = ["Hub", "HubConfig"]
