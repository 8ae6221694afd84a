"""The hub: the daemon of a cluster that asks the agents, runs the detectors and publishes findings.

The hub makes a pass every second. It also keeps a long poll open to every agent: an agent that suspects a rank
answers it, which starts a pass at once. The hub keeps no history except the findings; Prometheus has the rest.

`agent_poller` asks the agents, `agent_link` keeps the last answer of each, `job_state` keeps what is known about one
launch, `journal` opens and resolves findings, `ends` records the ends of launches, `zmon.notify` tells people of both,
`acts` does about a finding what a site lets it do, `stall_evidence` gathers evidence about stalls. `accounts`,
`baseline_store`, `pauses`, `ended_jobs` and `job_agents` keep their records on disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import aiohttp
from aiohttp import web

from zmon.detectors import Detector
from zmon.detectors.stall import Stall
from zmon.detectors.suppression import Remaining, suppress
from zmon.detectors.unread import UNREAD
from zmon.hub import job_agents, unread_jobs
from zmon.hub.acts import Intents
from zmon.hub.agent_link import FORGET_SECONDS
from zmon.hub.agent_poller import AgentPoller
from zmon.hub.api.answers import Answers
from zmon.hub.api.incidents import IncidentAnswers
from zmon.hub.api.view import job_state, view
from zmon.hub.config import HubConfig
from zmon.hub.discovery import Discovery
from zmon.hub.ended_jobs import FOLDER, EndedJobs
from zmon.hub.ends import FILE, Ends
from zmon.hub.incidents.collector import Incidents
from zmon.hub.job_agents import JobAgents
from zmon.hub.job_state import JobStates
from zmon.hub.journal import Journal
from zmon.hub.last_output import LastOutput
from zmon.hub.memory import FreeMemory, search_seldom, trim_of_libc
from zmon.hub.stall_evidence import EvidenceGatherer
from zmon.hub.standing_ranks import StandingRanks
from zmon.hub.wall_clock import WallClock
from zmon.job.headline import with_headline
from zmon.job.restarts import is_over
from zmon.job.shared_ids import SharedIds, renamed, renamed_window
from zmon.job.timeline import snapshots, superseded
from zmon.notify import FILE as NOTICES
from zmon.notify import Notifier
from zmon.schema.api.agent import AgentReport
from zmon.schema.finding import Finding
from zmon.schema.job import JobView
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.names import STALL
from zmon.web import http_client
from zmon.web.server import application
from zmon.web.work_queue import WorkQueue

log = logging.getLogger("zmon.hub")


class Hub:
    """The hub of a cluster: its state, its loops and its HTTP application."""

    def __init__(self, config: HubConfig) -> None:
        self.config = config
        self.detectors = config.detectors
        self._agents = AgentPoller(config)
        self.links = self._agents.links
        self.discovery = Discovery(config.sources)
        self.journal = Journal(config.data_dir / "findings.jsonl")
        self.job_states = JobStates(config.data_dir)
        self.ended_jobs = EndedJobs(config.data_dir / FOLDER)
        self.ends = Ends(config.data_dir / FILE)
        self.notifier = Notifier(config.recipients, config.data_dir / NOTICES) if config.recipients else None
        self.intents = Intents(config.policy, config.data_dir, self.links) if config.policy else None
        self.snapshots: tuple[Snapshot, ...] = ()
        self._views: list[JobView] | None = None  # None: not made since the last pass
        self.errors: dict[tuple[str, str], str] = {}  # the last error, by detector (or other part) and job
        self.pass_seconds = 0.0
        self.last_pass_time: float | None = None
        self._shared_ids = SharedIds()
        self._job_agents = JobAgents(config.data_dir / job_agents.FOLDER)
        stall = next((detector for detector in self.detectors if isinstance(detector, Stall)), Stall())
        self._stall_evidence = EvidenceGatherer(config, self.links, self.journal, self.job_states, stall.stands_still)
        self._last_output = LastOutput(config, self.links)
        self._standing_ranks = StandingRanks(config, self.links, self.job_states, stall)
        self.incidents = Incidents(config, self.links, self.journal, self._stall_evidence)
        self._free_memory = FreeMemory(trim_of_libc())
        self._began = time.monotonic()
        self._clock = WallClock()
        self._passed_at = -math.inf  # monotonic seconds

    @property
    def blind(self) -> bool:
        """Return True if no agent answers. A blind hub opens and resolves nothing."""
        return not any(link.reachable for link in self.links)

    # -- loops -----------------------------------------------------------------------------------------

    async def run_passes(self, session: aiohttp.ClientSession) -> None:
        """Make a pass every interval, for ever; a suspect starts one at once."""
        while True:
            begin = time.monotonic()
            try:
                await self._agents.ask(session)
                self._evaluate(session)
            except Exception:  # of any part: the next pass may succeed
                log.exception("a pass of the hub failed")  # the time of the last pass gets old as well, which pages
            self._free_memory.give_back()
            search_seldom(sum(len(snapshot.ranks) for snapshot in self.snapshots))
            self.pass_seconds = time.monotonic() - begin
            stalled = any(finding.is_stall for finding in self.journal.active())
            alert = stalled or any(link.suspects for link in self.links)
            self._agents.suspected.clear()
            interval = self.config.alert_interval_seconds if alert else self.config.interval_seconds
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(interval):  # wait_for may lose a cancellation (gh-86296)
                    await self._agents.suspected.wait()
            if alert:
                await asyncio.sleep(self.config.alert_interval_seconds / 2)  # limits passes when suspects flicker

    def _evaluate(self, session: aiohttp.ClientSession) -> None:
        """Run the detectors, publish what they report, and gather evidence for it."""
        if self.blind:
            return
        now, moved = self._clock.read()
        if moved:
            log.warning(
                "the clock of this host was set by %+.1f s; times of findings before that are by the old one", moved
            )
            for part in (self.journal, self.incidents, self.job_states, self.ended_jobs):
                part.move_times(moved)
        self.evaluate(now)
        for snapshot in self.snapshots:
            self._stall_evidence.update(session, snapshot)
            self._standing_ranks.update(session, snapshot)
        self._last_output.update(session, self.snapshots)
        had_time_to_find_agents = time.monotonic() - self._began > FORGET_SECONDS
        if self.discovery.is_complete or had_time_to_find_agents:
            self._forget_gone_jobs(now)
        self.ended_jobs.forget_old(now, {snapshot.job_id for snapshot in self.snapshots})
        self.ends.maintain(now)
        self.incidents.update(session, self.snapshots, now)
        if self.intents is not None:
            with self._isolated("acts", "all jobs"):
                self.intents.update(session, self.journal.active(), self.snapshots, now, moved)
        self._notify(now)
        self.journal.retry(now)
        self.job_states.accounts.maintain(snapshot.job_id for snapshot in self.snapshots)
        self.last_pass_time, self._views = now, None
        self._passed_at = time.monotonic()

    def _notify(self, now: float) -> None:
        """Tell the recipients of the site about new ends, and about findings that opened or are over."""
        ends = self.ends.take_new()
        acts = self.intents.take_new() if self.intents else []
        self.incidents.record_acts(acts, now)
        if self.notifier is not None:
            labels = {snapshot.job_id: snapshot.reported_ranks[0].labels for snapshot in self.snapshots}
            over = {snapshot.job_id for snapshot in self.snapshots if is_over(snapshot)}
            self.notifier.update(self.journal.active(), labels, over, ends, now, acts)

    @property
    def seconds_since_pass(self) -> float:
        """The time since the last pass in which an agent answered; infinite before the first one."""
        return time.monotonic() - self._passed_at

    def evaluate(self, now: float) -> None:
        """Run the detectors on the agents' latest reports; `now` is unix time. At least one agent must answer."""
        reports = [report for link in self.links if (report := link.present_report())]
        silent = [report for link in self.links if (report := link.silent_report())]
        names = self._shared_ids.names(reports, silent)
        reports, silent = ([renamed(report, names) for report in some] for some in (reports, silent))
        hardware = [renamed_window(window, names) for link in self.links if (window := link.window())]
        aligned = snapshots(reports, silent, [link.status() for link in self.links], now, hardware)
        self._record_earlier_ends(superseded(reports, aligned, now))
        self.snapshots = tuple(self.judge(snapshot, reports, now) for snapshot in aligned)
        unread_jobs.update(self.journal, self.links, now)
        self._views = None

    def _record_earlier_ends(self, launches: Iterable[Snapshot]) -> None:
        """Record the ends of these launches, which others followed before the hub saw their ends."""
        stall = next((detector for detector in self.detectors if detector.name == STALL), None)
        for snapshot in launches:
            is_judged = self.ended_jobs.is_judged(snapshot)
            if stall is None or (is_judged and self.ends.has(snapshot)):
                continue
            with self._isolated("earlier launches", snapshot.job_id):
                fault = next(iter(stall.detect(snapshot)), None)
                if not is_judged:
                    self.ended_jobs.update(snapshot, fault)
                self._record_end(snapshot, fault and self.journal.published_as(fault))

    def _record_end(
        self, snapshot: Snapshot, fault: Finding | None, view_of_job: Callable[[], JobView] | None = None
    ) -> None:
        acted = partial(self.intents.acted_on, snapshot) if self.intents else str
        self.ends.update(snapshot, fault, view_of_job, self._last_output.of(snapshot), acted)

    def judge(self, snapshot: Snapshot, reports: list[AgentReport], now: float) -> Snapshot:
        """Run the detectors on one job, publish what they report, and return the snapshot that they received."""
        snapshot = self._with_steps(snapshot, reports)
        self._run_detectors(snapshot, now)
        return snapshot

    def _with_steps(self, snapshot: Snapshot, reports: list[AgentReport]) -> Snapshot:
        """Return the snapshot with the recent steps of its job, and what the hub computes from them."""
        with self._isolated("history", snapshot.job_id):
            stalls = self._stalls(snapshot)
            snapshot = replace(snapshot, earlier_ends=self.ended_jobs.earlier_ends(snapshot))
            snapshot = self.job_states.state_of(snapshot).add(snapshot, reports, bool(stalls))
            with self._isolated("utilization", snapshot.job_id):
                self.job_states.state_of(snapshot).rate(snapshot, self.config.peaks, bool(stalls))
            self.job_states.baselines.learn(snapshot)
            snapshot = replace(snapshot, pauses=self.job_states.pauses.pauses(snapshot))
            return self.job_states.with_efficiency(snapshot, job_state(snapshot, stalls))
        return snapshot

    def _stalls(self, snapshot: Snapshot) -> list[Finding]:
        """Return the open findings of a job that does not move."""
        return [finding for finding in self.journal.active_of(snapshot.job_id, STALL) if finding.is_stall]

    @contextlib.contextmanager
    def _isolated(self, part: str, job_id: str) -> Iterator[None]:
        """Record an error of one part on one job, so that other parts and jobs go on."""
        try:
            yield
        except Exception as error:  # a defect may raise anything; doctor shows those of detectors
            text = f"{type(error).__name__}: {error}"
            if self.errors.get((part, job_id)) != text:
                log.exception("%s failed on job %s", part, job_id)
            self.errors[part, job_id] = text
        else:
            self.errors.pop((part, job_id), None)

    def _run_detectors(self, snapshot: Snapshot, now: float) -> None:
        """Run every detector on one job, and report each fault once."""
        findings: dict[str, tuple[Finding, ...]] = {}
        for detector in self.detectors:
            with self._isolated(detector.name, snapshot.job_id):
                findings[detector.name] = detector.detect(snapshot)
        with self._isolated("pauses", snapshot.job_id):
            self.job_states.pauses.observe(snapshot, findings.get(STALL, ()))
        remaining = suppress(findings)
        for detector in self.detectors:
            if detector.name in findings:
                with self._isolated(f"journal of {detector.name}", snapshot.job_id):
                    self._update_journal(snapshot, detector, remaining, now)
        if STALL in findings:
            with self._isolated("ended jobs", snapshot.job_id):
                stalls = self._stalls(snapshot)
                fault = next((finding for finding in findings[STALL] if finding.is_stall), None)
                published = next(iter(stalls), None)
                view_of_job = partial(view, snapshot, self.job_states, stalls)
                self.ended_jobs.update(snapshot, fault, published, view_of_job)
                self._record_end(snapshot, fault and (published or fault), view_of_job)

    def _update_journal(self, snapshot: Snapshot, detector: Detector, remaining: Remaining, now: float) -> None:
        """Open or update the findings of one detector on one job, and resolve those that it stopped reporting."""
        name, findings = detector.name, remaining.findings[detector.name]
        labels = self.config.alert_labels.of(snapshot.reported_ranks[0].labels)  # those of the job in its view
        for finding in findings:
            if self.journal.open_or_update(finding, now, detector.separate, labels):
                log.warning("%s %s: %s", finding.severity, finding.cause, finding.summary)
        active = () if name in remaining.resolved else self.journal.active_of(snapshot.job_id, name)
        # A detector that reports one fault at a time has updated its open finding of the same kind.
        updated = () if detector.separate else [f for f in active if any(f.is_stall == r.is_stall for r in findings)]
        undecided = [f for f in active if name in remaining.held_open or not detector.can_resolve(snapshot, f)]
        self.journal.resolve(snapshot.job_id, name, now, except_ids=[f.id for f in (*findings, *updated, *undecided)])

    def _forget_gone_jobs(self, now: float) -> None:
        """Resolve the findings of jobs that no agent reports, and forget these jobs.

        Call it only if all agents are known. A job that none of those reports which may have it has been pruned.
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
        self.errors = {key: text for key, text in self.errors.items() if key[1] in reported}

    def unwritten(self) -> dict[str, str]:
        """Return why the hub cannot write to disk, by what it cannot write. Findings and incidents are not in it."""
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
            active, now, views = self.journal.active(), time.time(), []
            for snapshot in self.snapshots:
                job = view(snapshot, self.job_states, [f for f in active if f.job_id == snapshot.job_id])
                job = replace(job, ended=self.ended_jobs.ended(snapshot.job_id, now))
                views.append(with_headline(job, active))
            self._views = views
        return self._views

    def jobs(self) -> list[JobView]:
        """Return a view of every job that an agent reports, and of those that a fault ended within the last day."""
        reported, active = self.reported_jobs(), self.journal.active()
        ended = self.ended_jobs.views(time.time(), {job.job_id for job in reported})
        return [*reported, *(with_headline(job, active) for job in ended)]

    def app(self) -> web.Application:
        """Return the HTTP application; the hub's loops run while it is served."""
        app = application(self.config.allowed_hosts, self.config.web, lambda: self.last_pass_time is not None)
        large = WorkQueue()
        incidents = IncidentAnswers(self.incidents.folder, large)
        app.add_routes([*Answers(self, large).routes(), *incidents.routes()])
        app.cleanup_ctx.append(self._run)
        return app

    async def _run(self, app: web.Application) -> Any:
        if self.config.http and self.config.http.credentials and self.config.max_agents > 1:
            log.warning(
                "each agent sees the %s of --http-config and can ask the others with it: show agents a certificate",
                self.config.http.credentials,
            )
        config = self.config
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
