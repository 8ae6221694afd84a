"""Every incident gets a capsule, in the background: collected when a finding is made and when it says another thing,
brought up to date when it gets worse or is over.

A disk that is full or read-only costs the capsule, not the finding.
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
from zmon.hub.gathering import Gathering
from zmon.hub.incidents import Folder, moments, steps
from zmon.hub.incidents.collecting import collect
from zmon.hub.incidents.moments import Suspected
from zmon.hub.journal import Journal
from zmon.schema.finding import Finding
from zmon.schema.incident import Capsule, Moment
from zmon.schema.snapshot import Snapshot

log = logging.getLogger("zmon.hub")

OF_WARNINGS = ("stall", "straggler", "imbalance", "hardware", "slowdown")  # what is gone when somebody comes to look
_AT_A_TIME = 4  # capsules: the disk and the page's making are not for free
_PRUNE_SECONDS = 3600.0
AGAIN_SECONDS = 10.0  # from one collection of an incident to the next: agents are asked and the disk is written


@dataclass
class _Incident:
    """One that goes on, or has just ended."""

    finding: Finding  # as it was noted last
    moments: list[Moment]
    snapshot: Snapshot | None = None  # to collect from: the verdict is new
    stale: bool = True  # what is on disk
    due: float = 0.0  # unix seconds: not before
    ended: bool = False
    task: asyncio.Task[None] | None = None


class Incidents:
    """The capsules of this hub's findings."""

    def __init__(self, config: HubConfig, links: Sequence[AgentLink], journal: Journal, gathering: Gathering) -> None:
        self._config, self._links, self._journal, self._gathering = config, links, journal, gathering
        self.folder = Folder(config.data_dir)
        self.error: str | None = None  # why capsules are not written
        self._open: dict[str, _Incident] = {}
        self._suspected: dict[tuple[str, int, str], Suspected] = {}
        self._room = asyncio.Semaphore(_AT_A_TIME)
        self._pruned_at: float | None = None
        self._on_disk: set[asyncio.Future[object]] = set()  # what threads are writing or deleting
        self.folder.clear()
        for brief in self.folder.briefs():
            known = journal.find(brief.id)
            if brief.resolved is None and known is not None and known.resolved is not None:
                self._open[brief.id] = self._resumed(known)  # the hub ended before it could say so

    def follow(self, session: aiohttp.ClientSession, snapshots: Iterable[Snapshot], now: float) -> None:
        """Once a pass: what is new, what changed, what is over. Whatever goes wrong here harms no judgement."""
        try:
            self._follow(session, {snapshot.job_id: snapshot for snapshot in snapshots}, now)
        except Exception as error:
            if str(error) != self.error:
                log.exception("incidents cannot be followed")
            self.error = str(error)

    async def close(self) -> None:
        """The hub ends: nothing of it writes to the folder any more."""
        for incident in self._open.values():
            if incident.task is not None:
                incident.task.cancel()
        await asyncio.gather(*self._on_disk, return_exceptions=True)

    def _follow(self, session: aiohttp.ClientSession, jobs: Mapping[str, Snapshot], now: float) -> None:
        self._hear_suspects(now)
        active = {finding.id: finding for finding in self._journal.active() if deserves(finding)}
        for finding in active.values():
            self._note(finding, jobs.get(finding.job_id), now)
        for finding_id, incident in self._open.items():
            known = self._journal.find(finding_id)
            if finding_id not in active and not incident.ended and known is not None:
                incident.finding, incident.ended, incident.stale, incident.due = known, True, True, now
                incident.moments.append(moments.resolved(known))
        for incident in self._open.values():
            if incident.stale and incident.task is None and now >= incident.due:
                incident.due = now + AGAIN_SECONDS
                incident.task = asyncio.create_task(self._bring_up_to_date(session, incident))
        if self._pruned_at is None or now - self._pruned_at > _PRUNE_SECONDS:
            self._pruned_at = now
            self._in_thread(self._prune, [*self._open])

    def _note(self, finding: Finding, snapshot: Snapshot | None, now: float) -> None:
        incident = self._open.get(finding.id)
        if incident is None:
            if snapshot is None and not finding.capsule:
                return  # its job is in nobody's sight yet
            incident = self._open[finding.id] = self._begun(finding, snapshot)
        before, incident.finding = incident.finding, finding
        changes, worse = [*moments.refined(before, finding, now)], [*moments.worse(before, finding, now)]
        if changes or worse:
            incident.moments = [*moments.extended(incident.moments, changes), *worse]
            incident.stale = True
        if worse or before.cause == "unknown" != finding.cause:
            incident.due = now  # neither can happen often
        if (before.cause, before.ranks) != (finding.cause, finding.ranks):
            incident.snapshot = snapshot

    def _begun(self, finding: Finding, snapshot: Snapshot | None) -> _Incident:
        if finding.capsule:  # from before a restart of the hub
            return self._resumed(finding)
        heard = [one for (job_id, _, _), one in self._suspected.items() if job_id == finding.job_id]
        return _Incident(finding, [*moments.begun(finding), *moments.suspicions(heard, finding)], snapshot)

    def _resumed(self, finding: Finding) -> _Incident:
        known = self.folder.read(finding.id)
        told = [*known.timeline] if known else [*moments.begun(finding)]
        ended = finding.resolved is not None
        if ended:
            told.append(moments.resolved(finding))
        return _Incident(known.finding if known else finding, told, stale=ended, ended=ended)

    def _hear_suspects(self, now: float) -> None:
        """When an agent raised each suspicion that stands."""
        heard = {}
        for link in self._links:
            host = link.report.host if link.report else link.url
            for one in link.suspects:
                key = one.job_id, one.rank, one.reason
                heard[key] = self._suspected.get(key) or Suspected(now, one.rank, one.reason, host)
        self._suspected = heard

    async def _bring_up_to_date(self, session: aiohttp.ClientSession, incident: _Incident) -> None:
        """Write what is known. What is new meanwhile is written when that is due."""
        finding_id = incident.finding.id
        whole: Capsule | None = None
        try:
            async with self._room:
                incident.stale, rows = False, None
                if incident.snapshot is not None:
                    whole, rows = await self._collect(session, incident, incident.snapshot)
                whole = whole or await asyncio.to_thread(self.folder.read, finding_id)
                if whole is not None:  # else nothing was ever written
                    await self._write(whole, incident, rows)
        except Exception:
            log.exception("the capsule of %s failed", finding_id)
        finally:
            incident.task = None
            if incident.ended and not incident.stale:
                self._open.pop(finding_id, None)

    async def _collect(
        self, session: aiohttp.ClientSession, incident: _Incident, snapshot: Snapshot
    ) -> tuple[Capsule, bytes]:
        incident.snapshot = None
        begin = time.time()
        collected, _ = await asyncio.gather(
            collect(session, self._config, self._links, snapshot, incident.finding),
            self._gathering.done(incident.finding.id),
        )
        finding, now = self._journal.find(incident.finding.id) or incident.finding, time.time()
        incident.moments = moments.extended(incident.moments, [*collected.moments, moments.gathered(now, finding)])

        def make() -> tuple[Capsule, bytes]:
            rows, ranks = steps.lines(collected.runs)
            runs = [run for run in collected.runs if run.state.rank in ranks]
            cut = len(collected.runs) - len(runs)
            full = [f"the steps of {cut} more ranks: {steps.MAX_BYTES >> 20} MiB are full"] if cut else []
            left_out = [*collected.left_out, *full]
            seconds = now - begin
            made = incidents.capsule(finding, collected.snapshot, runs, left_out, collected.versions, now, seconds)
            return made, rows

        self._pruned_at = None  # it takes room
        return await asyncio.to_thread(make)

    async def _write(self, whole: Capsule, incident: _Incident, rows: bytes | None) -> None:
        finding = self._journal.find(incident.finding.id) or incident.finding
        finding = replace(finding, capsule=str(self.folder.place(finding.id)))
        whole = replace(whole, finding=finding, timeline=moments.in_order(incident.moments))
        try:
            await asyncio.shield(self._in_thread(self.folder.write, whole, rows))
        except OSError as error:
            if self.error is None:
                log.warning(
                    "cannot write the capsule of %s in %s: %s. The finding is published all the same: make room there",
                    finding.id,
                    self.folder.root,
                    error.strerror,
                )
            self.error = str(error)
        else:
            self.error = None
            self._journal.file(finding)

    def _in_thread(self, work: Callable[..., object], *told: object) -> asyncio.Future[object]:
        """Work on the disk. No thread can be cancelled, so `close` waits for it."""
        begun = asyncio.get_running_loop().run_in_executor(None, work, *told)
        self._on_disk.add(begun)
        begun.add_done_callback(self._on_disk.discard)
        return begun

    def _prune(self, active: Collection[str]) -> None:
        if gone := self.folder.prune(active):
            log.info("deleted %d old incidents from %s", len(gone), self.folder.root)


def deserves(finding: Finding) -> bool:
    """Whether a finding gets a capsule."""
    return finding.severity == "critical" or (finding.severity == "warning" and finding.detector in OF_WARNINGS)
