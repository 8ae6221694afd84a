"""The collector of capsules: it writes one for each incident, in the background.

A capsule is collected when its finding opens and when the diagnosis changes. It is updated when the severity rises,
when zmon acts, and when the finding resolves. If the disk is full or read-only, the capsule is lost, but the finding is
published.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import aiohttp

from zmon.hub import incidents
from zmon.hub.agent_link import AgentLink
from zmon.hub.config import HubConfig
from zmon.hub.incidents import CapsuleStore, moments, steps
from zmon.hub.incidents.agent_data import collect
from zmon.hub.incidents.moments import Suspected
from zmon.hub.journal import Journal
from zmon.hub.stall_evidence import EvidenceGatherer
from zmon.schema.act import Intent
from zmon.schema.finding import Finding
from zmon.schema.incident import Capsule, TimelineEvent
from zmon.schema.job_snapshot import Snapshot

log = logging.getLogger("zmon.hub")

# The detectors whose warnings get a capsule as well: what they report is gone when a person comes to look.
WARNING_DETECTORS = ("stall", "straggler", "imbalance", "hardware", "slowdown")
_CONCURRENCY = 4  # capsules that are made at the same time: rendering and writing them costs CPU and disk time
_PRUNE_SECONDS = 3600.0
# Between two collections of an incident, which load agents and disk. Severity, acts and the end do not wait for it.
COLLECT_INTERVAL_SECONDS = 10.0


@dataclass
class _Incident:
    """An incident that is active or has just ended."""

    finding: Finding  # the finding as of the last pass
    moments: list[TimelineEvent]
    snapshot: Snapshot | None = None  # at the newest diagnosis, until data about it is collected
    is_stale: bool = True  # the capsule on disk is out of date
    due: float = 0.0  # unix time before which the capsule is not written
    has_ended: bool = False
    task: asyncio.Task[None] | None = None


class Incidents:
    """The capsules of this hub's findings."""

    def __init__(
        self, config: HubConfig, links: Sequence[AgentLink], journal: Journal, stall_evidence: EvidenceGatherer
    ) -> None:
        self._config, self._links, self._journal, self._stall_evidence = config, links, journal, stall_evidence
        self.store = CapsuleStore(config.data_dir)
        self.error: str | None = None  # why capsules cannot be written
        self._open: dict[str, _Incident] = {}  # by id of the finding
        self._suspected: dict[tuple[str, int, str], Suspected] = {}  # by job, rank and reason
        self._limit = asyncio.Semaphore(_CONCURRENCY)
        self._pruned_at: float | None = None  # unix time; None: prune at the next pass
        self._disk_work: set[asyncio.Future[object]] = set()  # writes and deletions in threads
        self.store.clear()
        for summary in self.store.summaries():
            finding = journal.find(summary.id)
            if summary.resolved is None and finding is not None and finding.resolved is not None:
                self._open[summary.id] = self._resumed_incident(finding)  # its end is not in the capsule yet

    def update(self, session: aiohttp.ClientSession, snapshots: Iterable[Snapshot], now: float) -> None:
        """Follow the journal; call it once per pass. An error here is logged and does not stop the pass."""
        try:
            self._update(session, {snapshot.job_id: snapshot for snapshot in snapshots}, now)
        except Exception as error:  # a defect here must not stop the pass, which publishes the findings
            if str(error) != self.error:
                log.exception("incident capsules cannot be updated")
            self.error = str(error)

    def move_times(self, seconds: float) -> None:
        """Move the times that are compared with later ones, because the clock was set by these seconds."""
        for incident in self._open.values():
            incident.due += seconds
        if self._pruned_at is not None:
            self._pruned_at += seconds

    def record_acts(self, intents: Iterable[Intent], now: float) -> None:
        """Add what was done about findings to the timelines of their incidents."""
        for intent in intents:
            if (incident := self._open.get(intent.finding)) is not None:
                incident.moments.append(moments.act_moment(intent, now))
                incident.is_stale = True
                incident.due = now

    async def close(self) -> None:
        """Stop; after this nothing writes to the folder any more."""
        for incident in self._open.values():
            if incident.task is not None:
                incident.task.cancel()
        await asyncio.gather(*self._disk_work, return_exceptions=True)

    def _update(self, session: aiohttp.ClientSession, jobs: Mapping[str, Snapshot], now: float) -> None:
        """Bring the incidents up to date with the journal, and start to write the capsules that are due."""
        self._update_suspects(now)
        active = {finding.id: finding for finding in self._journal.active() if needs_capsule(finding)}
        for finding in active.values():
            self._update_incident(finding, jobs.get(finding.job_id), now)
        for finding_id, incident in self._open.items():
            latest = self._journal.find(finding_id)
            if finding_id not in active and not incident.has_ended and latest is not None:
                incident.finding = latest
                incident.has_ended = True
                incident.is_stale = True
                incident.due = now
                incident.moments.append(moments.resolution(latest))
        for incident in self._open.values():
            if incident.is_stale and incident.task is None and now >= incident.due:
                incident.due = now + COLLECT_INTERVAL_SECONDS
                incident.task = asyncio.create_task(self._refresh(session, incident))
        if self._pruned_at is None or now - self._pruned_at > _PRUNE_SECONDS:
            self._pruned_at = now
            self._in_thread(self._prune, [*self._open])

    def _update_incident(self, finding: Finding, snapshot: Snapshot | None, now: float) -> None:
        """Add the changes of an active finding to its incident, and decide when its capsule is written next."""
        incident = self._open.get(finding.id)
        if incident is None:
            if snapshot is None and not finding.capsule:
                return  # no agent reports its job yet
            incident = self._open[finding.id] = self._new_incident(finding, snapshot)
        previous, incident.finding = incident.finding, finding
        diagnosis = [*moments.diagnosis_changes(previous, finding, now)]
        severity = [*moments.severity_changes(previous, finding, now)]
        if diagnosis or severity:
            incident.moments = [*moments.extended(incident.moments, diagnosis), *severity]
            incident.is_stale = True
        cause_became_known = previous.cause == "unknown" and finding.cause != "unknown"
        if severity or cause_became_known:
            incident.due = now  # at once: neither happens often
        if (previous.cause, previous.ranks) != (finding.cause, finding.ranks):
            incident.snapshot = snapshot

    def _new_incident(self, finding: Finding, snapshot: Snapshot | None) -> _Incident:
        if finding.capsule:  # it opened before the hub restarted
            return self._resumed_incident(finding)
        suspected = [suspect for (job_id, _, _), suspect in self._suspected.items() if job_id == finding.job_id]
        return _Incident(finding, [*moments.opening(finding), *moments.suspicions(suspected, finding)], snapshot)

    def _resumed_incident(self, finding: Finding) -> _Incident:
        """Return the incident of a finding that an earlier hub opened, with the stored timeline."""
        stored = self.store.read(finding.id)
        timeline = [*stored.timeline] if stored else [*moments.opening(finding)]
        has_ended = finding.resolved is not None
        if has_ended:
            timeline.append(moments.resolution(finding))
        return _Incident(stored.finding if stored else finding, timeline, is_stale=has_ended, has_ended=has_ended)

    def _update_suspects(self, now: float) -> None:
        """Record the ranks that agents suspect now, each with the time at which the hub first received it."""
        suspected = {}
        for link in self._links:
            host = link.report.host if link.report else link.url
            for suspicion in link.suspects:
                key = suspicion.job_id, suspicion.rank, suspicion.reason
                first = Suspected(now, suspicion.rank, suspicion.reason, host)
                suspected[key] = self._suspected.get(key) or first
        self._suspected = suspected

    async def _refresh(self, session: aiohttp.ClientSession, incident: _Incident) -> None:
        """Collect data if necessary, and write the capsule. A change in the meantime is written when it is due."""
        finding_id = incident.finding.id
        capsule: Capsule | None = None
        try:
            async with self._limit:
                if incident.has_ended:  # the journal drops large evidence only if all of it is in the capsule
                    await self._stall_evidence.wait(finding_id)
                incident.is_stale = False
                rows = None
                if incident.snapshot is not None:
                    capsule, rows = await self._collect(session, incident, incident.snapshot)
                capsule = capsule or await asyncio.to_thread(self.store.read, finding_id)
                if capsule is not None:  # None: no capsule was ever written
                    await self._write(capsule, incident, rows)
        except Exception as error:  # an agent's answer may have any content; the finding is published all the same
            log.exception("cannot make the capsule of %s", finding_id)
            self.error = f"{type(error).__name__}: {error}"
        finally:
            incident.task = None
            if incident.has_ended and not incident.is_stale:
                self._open.pop(finding_id, None)

    async def _collect(
        self, session: aiohttp.ClientSession, incident: _Incident, snapshot: Snapshot
    ) -> tuple[Capsule, bytes]:
        """Collect data for the incident. Return the capsule, and the content of its steps.jsonl."""
        incident.snapshot = None
        begin = time.monotonic()
        collected, _ = await asyncio.gather(
            collect(session, self._config, self._links, snapshot, incident.finding),
            self._stall_evidence.wait(incident.finding.id),
        )
        finding = self._journal.find(incident.finding.id) or incident.finding
        now = time.time()
        seconds = time.monotonic() - begin
        new = [*collected.moments, moments.evidence_gathered(now, finding)]
        incident.moments = moments.extended(incident.moments, new)

        def build() -> tuple[Capsule, bytes]:
            rows, ranks = steps.encode(collected.runs)
            runs = [run for run in collected.runs if run.state.rank in ranks]
            num_cut = len(collected.runs) - len(runs)
            cut = f"the steps of {num_cut} more ranks: steps.jsonl holds {steps.MAX_BYTES >> 20} MiB at most"
            left_out = [*collected.left_out, *([cut] if num_cut else [])]
            capsule = incidents.capsule(finding, collected.snapshot, runs, left_out, collected.versions, now, seconds)
            return capsule, rows

        self._pruned_at = None  # a new capsule takes space
        return await asyncio.to_thread(build)

    async def _write(self, capsule: Capsule, incident: _Incident, rows: bytes | None) -> None:
        """Write the capsule with the newest finding and timeline. An error of the disk is recorded, not raised."""
        finding = self._journal.find(incident.finding.id) or incident.finding
        finding = replace(finding, capsule=str(self.store.directory(finding.id)))
        capsule = replace(capsule, finding=finding, timeline=moments.in_order(incident.moments))
        try:
            await asyncio.shield(self._in_thread(self.store.write, capsule, rows))
        except OSError as error:
            if self.error is None:
                text = "cannot write the capsule of %s in %s: %s. The finding is published; free some disk space there"
                log.warning(text, finding.id, self.store.root, error.strerror)
            self.error = str(error)
        else:
            self.error = None
            self._journal.record_capsule(finding)

    def _in_thread(self, work: Callable[..., object], *arguments: object) -> asyncio.Future[object]:
        """Start work on the disk in a thread. A thread cannot be cancelled; `close` waits for it."""
        future = asyncio.get_running_loop().run_in_executor(None, work, *arguments)
        self._disk_work.add(future)
        future.add_done_callback(self._disk_work.discard)
        return future

    def _prune(self, active: Collection[str]) -> None:
        if deleted := self.store.prune(active):
            log.info("deleted %d old incidents from %s", len(deleted), self.store.root)


def needs_capsule(finding: Finding) -> bool:
    """Return True for critical findings, and for the warnings of some detectors."""
    return finding.severity == "critical" or (finding.severity == "warning" and finding.detector in WARNING_DETECTORS)
