"""What goes on on this node: reads the boxes and the hardware, suspects at once, answers whoever asks.

It needs nothing from the job's code, lives on when a source dies, and never reports a guess: what a source said is
shown while it answers, and nothing in its place when it does not. While the boxes themselves cannot be looked at the
snapshot is refused: the hub then knows that these ranks are unwatched, instead of taking them for gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import psutil
from aiohttp import web

import zmon
from zmon import metrics
from zmon.agent.config import AgentConfig
from zmon.agent.devices import Devices
from zmon.agent.exported import exported
from zmon.agent.poller import Poller, news
from zmon.agent.rank_evidence import LastLines, rank_evidence, whereabouts
from zmon.agent.snapshot import RanksAtLook, Selection, ranks_at_look
from zmon.agent.sources import Reading, Source, all_sources
from zmon.agent.sources.boxes import Boxes
from zmon.agent.sources.stderr import StderrSource
from zmon.errors import Unreachable
from zmon.schema.agent import AgentReport
from zmon.schema.api import (
    AgentHealth,
    AgentHealthRequest,
    EvidenceRequest,
    RankEvidence,
    SnapshotRequest,
    SourceDown,
    Suspects,
    SuspectsRequest,
    Suspicion,
    endpoints,
)
from zmon.schema.host import HostSample, SourceStatus
from zmon.schema.thresholds import changed
from zmon.steplog import FOLDER, StepLog
from zmon.web.server import Refusal, route

log = logging.getLogger("zmon.agent")

T = TypeVar("T")
_STEPS = "steps"
_LAST_WORDS_SECONDS = 1.0


class Agent:
    """The state of one node's agent."""

    def __init__(self, config: AgentConfig, sources: tuple[Source, ...] | None = None) -> None:
        self._config = config
        self._boxes = Boxes(config.box_dir, config.host, config.leases)
        self._looks = Poller(
            "boxes", self._boxes.read, config.look_interval_seconds, config.look_timeout_seconds, self._heard
        )
        found = all_sources(self._pids) if sources is None else sources
        config.check_names([*(source.name for source in found), StderrSource.name, _STEPS])
        self._sources = {
            source.field: Poller(
                source.name,
                source.read,
                source.interval_seconds,
                config.source_timeout_seconds,
                core_ratio=config.source_core_ratio,
            )
            for source in found
            if source.name not in config.without
        }
        self._watches = [self._looks, *self._sources.values()]
        self._last_lines: LastLines | None = None
        if StderrSource.name not in config.without:
            self._last_lines = LastLines(self._boxes.runs, config.source_timeout_seconds)
            self._watches.append(self._last_lines.watch)
        self._logging: Poller | None = None
        if config.data_dir is not None and _STEPS not in config.without:
            steps = StepLog(config.data_dir / FOLDER, config.host)

            def append() -> Reading:
                return Reading(None, steps.append(self._boxes.files()))

            self._logging = Poller(_STEPS, append, config.log_interval_seconds, config.source_timeout_seconds)
            self._watches.append(self._logging)
        self._devices = Devices()
        self._suspects: frozenset[Suspicion] = frozenset()
        self._suspects_version = 0
        self._suspects_changed = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._process = psutil.Process()

    # -- what the sources say --------------------------------------------------------------------------

    def _heard(self, suspects: frozenset[Suspicion]) -> None:
        """Called by the thread that looks."""
        if suspects != self._suspects and self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                self._loop.call_soon_threadsafe(self._suspect, suspects)

    def _suspect(self, suspects: frozenset[Suspicion]) -> None:
        if suspects != self._suspects:
            self._suspects = suspects
            self._suspects_version += 1
            self._suspects_changed.set()
            self._suspects_changed = asyncio.Event()

    def _pids(self) -> dict[int, tuple[str, int]]:
        """Of the ranks, for the sources; none while nobody looks whether they live, for a pid may be another's then."""
        return {} if self._blindness() else self._boxes.pids()

    def statuses(self) -> tuple[SourceStatus, ...]:
        """How each source is doing that has been read, or should have been by now."""
        return tuple(status for watch in self._watches if (status := watch.status))

    def _blindness(self) -> Unreachable | None:
        """Why the boxes cannot be looked at, if they cannot."""
        status = self._looks.status
        return None if status is None or status.up else self._unreachable(status.error or "")

    def _unreachable(self, why: str) -> Unreachable:
        return Unreachable(f"cannot look at the boxes in {self._config.box_dir}", why)

    async def _ask_boxes(self, question: Callable[[], T]) -> T:
        """Have a question answered by the thread that looks. Raises Unreachable while the boxes cannot be looked at."""
        if blindness := self._blindness():
            raise blindness
        answer = asyncio.wrap_future(self._looks.ask(question))
        try:
            async with asyncio.timeout(self._config.answer_seconds):
                return await answer
        except TimeoutError as error:
            raise self._unreachable(f"no answer within {self._config.answer_seconds:g} s") from error

    # -- answers ---------------------------------------------------------------------------------------

    def _report(self, seen: RanksAtLook) -> AgentReport:
        sample = HostSample(**{field: watch.value for field, watch in self._sources.items()})
        return AgentReport(
            host=self._config.host,
            time=time.time(),
            monotonic=time.monotonic(),
            version=zmon.__version__,
            box_dir=str(self._config.box_dir),
            ranks=self._devices.add(seen.ranks, sample.gpus or ()),
            sample=sample,
            sources=self.statuses(),
            records=dict(seen.records),
            cursor=seen.cursor,
            plans=dict(seen.plans),
            plans_version=seen.plans_version,
            leases=changed(self._config.leases, "leases"),
        )

    async def report(self, asked: Selection) -> AgentReport:
        """Everything as of the last look, steps only for those who ask. Raises Unreachable while nobody can look."""
        return self._report(
            await self._ask_boxes(lambda: ranks_at_look(self._boxes, asked, self._config.max_records_per_rank))
        )

    async def page(self) -> bytes:
        """/metrics: the newest attempt of each job, until a little after its end; no rank that nobody looks at."""
        try:
            report = await self.report(Selection())
            self._devices.keep(state.run_uid for state in report.ranks)
        except Unreachable:
            report = self._report(RanksAtLook(0))
        cpu = self._process.cpu_times()
        return metrics.agent_page(
            replace(report, ranks=tuple(exported(report.ranks))),
            cpu.user + cpu.system,
            self._process.memory_info().rss,
        )

    async def suspects(self, request: SuspectsRequest) -> Suspects:
        """Answer when the suspects differ from those of version `since`, or after `wait` seconds."""
        wait, since = min(request.wait, self._config.max_wait_seconds), request.since
        if blindness := self._blindness():
            raise Refusal(503, str(blindness))
        if since < 0 and self._suspects:
            wait = 0
        known = self._suspects_version if since < 0 else since
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait):
                while self._suspects_version == known:
                    await self._suspects_changed.wait()
        suspects = sorted(self._suspects, key=lambda suspicion: (suspicion.job_id, suspicion.rank))
        return Suspects(self._suspects_version, suspects)

    async def snapshot(self, request: SnapshotRequest) -> AgentReport:
        """Everything, for the hub."""
        asked = Selection(
            since=request.since if request.since >= 0 else None,
            job_id=request.job_id,
            about=request.about if request.about > 0 else None,
            last=request.last if request.last > 0 else None,
            plans=request.plans,
        )
        try:
            return await self.report(asked)
        except Unreachable as error:
            raise Refusal(503, str(error)) from error

    async def evidence(self, request: EvidenceRequest) -> RankEvidence:
        """What one rank of this node is stuck in, dead or alive."""
        job_id, rank = request.job_id, request.rank
        try:
            where = await self._ask_boxes(lambda: whereabouts(self._boxes, job_id, rank, request.run))
        except Unreachable as error:
            raise Refusal(503, str(error)) from error
        if where is None:
            raise Refusal(404, f"no rank {rank} of job {job_id} on this node: zmon status lists what is there")
        return RankEvidence(job_id, int(rank), **await rank_evidence(where, self._last_lines, request.stacks))

    async def get_metrics(self, request: web.Request) -> web.Response:
        """For Prometheus."""
        return web.Response(body=await self.page(), headers={"Content-Type": metrics.CONTENT_TYPE})

    async def health(self, request: AgentHealthRequest) -> AgentHealth:
        """Whether the boxes are looked at; who is down and since when, and what each source leaves out, damaged boxes
        for instance."""
        boxes = self._looks.status
        healthy = boxes is not None and boxes.up
        down = [
            SourceDown(watch.name, watch.down_since, status.error)
            for watch in self._watches
            if watch.down_since and (status := watch.status)
        ]
        return AgentHealth(healthy, self._config.host, down, self.statuses(), changed(self._config.leases, "leases"))

    def app(self) -> web.Application:
        """The HTTP door, with the sources being read behind it."""
        app = web.Application()
        app.add_routes(
            [
                web.get("/metrics", self.get_metrics),
                route(endpoints.AGENT_HEALTH, self.health, lambda health: 200 if health.healthy else 503),
                route(endpoints.SNAPSHOT, self.snapshot),
                route(endpoints.SUSPECTS, self.suspects),
                route(endpoints.EVIDENCE, self.evidence),
            ]
        )
        app.cleanup_ctx.append(self._run)
        return app

    async def _run(self, app: web.Application) -> Any:
        self._loop = asyncio.get_running_loop()
        for watch in self._watches:
            watch.start()
        telling = asyncio.create_task(self._tell())
        yield
        telling.cancel()
        if self._logging is not None:  # what was done since it last wrote; not for long, a disk may hang
            with contextlib.suppress(Exception):
                async with asyncio.timeout(_LAST_WORDS_SECONDS):
                    await asyncio.wrap_future(self._logging.ask(self._logging.read))
        for watch in self._watches:
            watch.stop()

    async def _tell(self) -> None:
        """Say in the log what changes."""
        told: dict[str, SourceStatus] = {}
        while True:
            for status in self.statuses():
                if line := news(told.get(status.name), status):
                    log.log(logging.INFO if status.absent else logging.WARNING, "%s", line)
                told[status.name] = status
            await asyncio.sleep(1)


__all__ = ["Agent", "AgentConfig"]
