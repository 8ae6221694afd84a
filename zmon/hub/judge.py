"""The judge of the jobs: it runs the detectors on each job, and publishes what they report.

Each detector gets the job's snapshot with the recent steps, and with what the hub computes from them.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

from zmon.detectors import Detector
from zmon.detectors.suppression import Remaining, suppress
from zmon.hub.api.view import job_state
from zmon.hub.config import HubConfig
from zmon.hub.end_recorder import EndRecorder
from zmon.hub.ended_jobs import EndedJobs
from zmon.hub.job_state import JobStates
from zmon.hub.journal import Journal
from zmon.hub.part_errors import PartErrors
from zmon.schema.api.agent import AgentReport
from zmon.schema.finding import Finding
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.names import STALL

log = logging.getLogger("zmon.hub")


@dataclass(frozen=True)
class Judge:
    """The judge of one hub."""

    config: HubConfig
    journal: Journal
    job_states: JobStates
    ended_jobs: EndedJobs
    end_recorder: EndRecorder
    errors: PartErrors

    def judge_job(self, snapshot: Snapshot, reports: list[AgentReport], now: float) -> Snapshot:
        """Judge one job, and return the snapshot that the detectors received.

        The job's steps are moved from `reports` to the snapshot. `now` is unix time.
        """
        snapshot = self._with_steps(snapshot, reports)
        self.run_detectors(snapshot, now)
        return snapshot

    def _with_steps(self, snapshot: Snapshot, reports: list[AgentReport]) -> Snapshot:
        """Return the snapshot with the recent steps of its job, and what the hub computes from them."""
        job_id, states = snapshot.job_id, self.job_states
        with self.errors.isolated("history", job_id):
            stalls = self.journal.active_stalls(job_id)
            snapshot = replace(snapshot, earlier_ends=self.ended_jobs.earlier_ends(snapshot))
            snapshot = states.state_of(snapshot).add(snapshot, reports, bool(stalls))
            with self.errors.isolated("utilization", job_id):
                states.state_of(snapshot).account_utilization(snapshot, self.config.peaks, bool(stalls))
            states.baselines.learn(snapshot)
            snapshot = replace(snapshot, pauses=states.pauses.pauses(snapshot))
            return states.with_efficiency(snapshot, job_state(snapshot, stalls))
        return snapshot

    def run_detectors(self, snapshot: Snapshot, now: float) -> None:
        """Run every detector on one job, publish each fault once, and record the end of the launch."""
        job_id, detectors = snapshot.job_id, self.config.detectors
        findings: dict[str, tuple[Finding, ...]] = {}
        for detector in detectors:
            with self.errors.isolated(detector.name, job_id):
                findings[detector.name] = detector.detect(snapshot)
        with self.errors.isolated("pauses", job_id):
            self.job_states.pauses.observe(snapshot, findings.get(STALL, ()))
        remaining = suppress(findings)
        for detector in detectors:
            if detector.name in findings:
                with self.errors.isolated(f"journal of {detector.name}", job_id):
                    self._update_journal(snapshot, detector, remaining, now)
        if STALL in findings:
            with self.errors.isolated("ended jobs", job_id):
                self.end_recorder.update(snapshot, findings[STALL])

    def _update_journal(self, snapshot: Snapshot, detector: Detector, remaining: Remaining, now: float) -> None:
        """Open or update the findings of one detector on one job, and resolve those that it stopped reporting."""
        name, findings = detector.name, remaining.findings[detector.name]
        job_labels = self.config.alert_labels.accepted(snapshot.reported_ranks[0].labels)
        for finding in findings:
            if self.journal.open_or_update(finding, now, detector.separate, job_labels):
                log.warning("%s %s: %s", finding.severity, finding.cause, finding.summary)
        active = () if name in remaining.resolved else self.journal.active_of(snapshot.job_id, name)
        # A detector that reports one fault at a time has updated its open finding of the same kind.
        kinds: set[bool] = set() if detector.separate else {finding.is_stall for finding in findings}
        updated = [f for f in active if f.is_stall in kinds]
        undecided = [f for f in active if name in remaining.held_open or not detector.can_resolve(snapshot, f)]
        except_ids = [f.id for f in (*findings, *updated, *undecided)]
        self.journal.resolve(snapshot.job_id, name, now, except_ids=except_ids)
