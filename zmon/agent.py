"""What goes on on this node: reads the boxes and the hardware, suspects at once, answers whoever asks.

It needs nothing from the job's code, lives on when a source dies, and never reports a guess.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import psutil
from aiohttp import web

import zmon
from zmon import evidence, metrics
from zmon.errors import SourceUnavailable
from zmon.hardware import HostSample, SourceStatus
from zmon.records import AgentReport, RankState, StepRecord
from zmon.server import json_response, number_argument, problem
from zmon.sources import Source, all_sources
from zmon.sources.boxes import Boxes, Suspicion
from zmon.timeline import newest_attempt

log = logging.getLogger("zmon.agent")

_SETTLED_NS = 50_000_000  # a record is written microseconds after its step's end: what is older is all there
EXPORT_AFTER_END_SECONDS = 30.0  # how long a rank's series outlive it


@dataclass(frozen=True)
class AgentConfig:
    """Flags of `zmon agent`."""

    box_dir: Path
    host: str
    look_interval_seconds: float = 0.1
    source_timeout_seconds: float = 5.0  # a source that hangs is marked down and left alone
    max_wait_seconds: float = 60.0  # of a long poll
    max_records_per_rank: int = 1024  # in one answer: about 20 s of 20 ms steps


class Agent:
    """The state of one node's agent."""

    def __init__(self, config: AgentConfig, sources: tuple[Source, ...] | None = None) -> None:
        self._config = config
        self._boxes = Boxes(config.box_dir, config.host)
        self._sources = all_sources() if sources is None else sources
        self._sample = HostSample()
        self._statuses: dict[str, SourceStatus] = {}
        self._suspects: frozenset[Suspicion] = frozenset()
        self._suspects_version = 0
        self._suspects_changed = asyncio.Condition()
        self._look_failures = 0
        self._process = psutil.Process()

    # -- loops -----------------------------------------------------------------------------------------

    async def watch_boxes(self) -> None:
        """Look at the boxes for ever; wake the long polls when the suspects change."""
        pruned = 0.0
        while True:
            begin = time.monotonic()
            try:
                suspects = self._boxes.look()
                if begin - pruned > 60:
                    self._boxes.prune()
                    pruned = begin
            except Exception as error:
                self._note("boxes", begin, error)
            else:
                self._note("boxes", begin, None)
                if suspects != self._suspects:
                    self._suspects = suspects
                    self._suspects_version += 1
                    async with self._suspects_changed:
                        self._suspects_changed.notify_all()
            await asyncio.sleep(self._config.look_interval_seconds)

    async def watch_source(self, source: Source) -> None:
        """Read one source for ever. It may fail, or hang: then it is down, and left alone until it answers."""
        while True:
            begin = time.monotonic()
            answer = _in_thread(source.read)
            done, _ = await asyncio.wait((answer,), timeout=self._config.source_timeout_seconds)
            if not done:
                self._sample = replace(self._sample, **{source.field: None})
                self._note(source.name, begin, TimeoutError("it does not answer"))
            try:
                reading = await answer
            except Exception as error:
                reading = None
                self._note(source.name, begin, error)
            else:
                self._note(source.name, begin, None)
            self._sample = replace(self._sample, **{source.field: reading})
            await asyncio.sleep(source.interval_seconds)

    def _note(self, name: str, begin: float, error: Exception | None) -> None:
        before = self._statuses.get(name)
        failed = error is not None and not isinstance(error, SourceUnavailable)
        if error is not None and (before is None or before.error != str(error)):
            log.warning("source %s: %s", name, error or type(error).__name__)
        self._statuses[name] = SourceStatus(
            name=name,
            up=error is None,
            absent=isinstance(error, SourceUnavailable),
            duration_seconds=time.monotonic() - begin,
            last_success_time=time.time() if error is None else before.last_success_time if before else None,
            num_errors=(before.num_errors if before else 0) + failed,
            error=None if error is None else str(error) or type(error).__name__,
        )

    # -- answers ---------------------------------------------------------------------------------------

    def report(self, since: int | None = None, job_id: str | None = None) -> AgentReport:
        """Everything as of the last look; step records only for those who hand a cursor in.

        The cursor is the host's monotonic clock in nanoseconds: records of steps that ended after it.
        """
        states: list[RankState] = []
        records: defaultdict[str, dict[str, tuple[StepRecord, ...]]] = defaultdict(dict)
        cursor = time.monotonic_ns() - _SETTLED_NS
        for box, state in self._boxes.ranks():
            if job_id is not None and state.job_id != job_id:
                continue
            states.append(state)
            if since is not None:
                fresh = box.records_ended(since, cursor, self._config.max_records_per_rank)
                records[state.job_id][state.run_uid] = fresh
        return AgentReport(
            host=self._config.host,
            time=time.time(),
            version=zmon.__version__,
            ranks=tuple(states),
            sample=self._sample,
            sources=tuple(self._statuses.values()),
            records=dict(records),
            cursor=cursor,
        )

    def page(self) -> bytes:
        """/metrics: the newest attempt of each job, until a little after its end."""
        report = self.report()
        by_job: defaultdict[str, list[RankState]] = defaultdict(list)
        for state in report.ranks:
            by_job[state.job_id].append(state)
        shown = [
            state
            for states in by_job.values()
            for state in newest_attempt(states)
            if state.gone_seconds is None or state.gone_seconds < EXPORT_AFTER_END_SECONDS
        ]
        cpu = self._process.cpu_times()
        return metrics.agent_page(
            replace(report, ranks=tuple(shown)), cpu.user + cpu.system, self._process.memory_info().rss
        )

    async def get_suspects(self, request: web.Request) -> web.Response:
        """Long poll: answers when the suspects differ from those of version `since`, or after `wait` seconds."""
        wait = min(number_argument(request.query, "wait", 0), self._config.max_wait_seconds)
        since = number_argument(request.query, "since", -1)
        if since < 0 and self._suspects:
            wait = 0
        known = self._suspects_version if since < 0 else since
        async with self._suspects_changed:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._suspects_changed.wait_for(lambda: self._suspects_version != known)
        suspects = sorted((asdict(s) for s in self._suspects), key=lambda s: (s["job_id"], s["rank"]))
        return json_response({"schema": 1, "version": self._suspects_version, "suspects": suspects})

    async def get_snapshot(self, request: web.Request) -> web.Response:
        """Everything, for the hub."""
        since = int(number_argument(request.query, "since", -1))
        return json_response(self.report(since if since >= 0 else None, request.query.get("job_id")))

    async def get_evidence(self, request: web.Request) -> web.Response:
        """What one rank of this node is stuck in: its stacks (not with `stacks=0`), its operations in flight."""
        job_id, rank = request.match_info["job_id"], request.match_info["rank"]
        stacks = request.query.get("stacks", "1") not in ("", "0")
        for box, state in self._boxes.ranks():
            if state.job_id == job_id and str(state.rank) == rank:
                gathered: dict[str, Any] = await evidence.gather(box.identity.pid, box.socket, stacks=stacks)
                return json_response({"schema": 1, "job_id": job_id, "rank": state.rank, **gathered})
        return problem(f"no rank {rank} of job {job_id} on this node: zmon status lists what is there", 404)

    async def get_metrics(self, request: web.Request) -> web.Response:
        """For Prometheus."""
        return web.Response(body=self.page(), headers={"Content-Type": metrics.CONTENT_TYPE})

    async def get_health(self, request: web.Request) -> web.Response:
        """200 while the boxes are looked at; what is wrong otherwise, damaged boxes included."""
        boxes = self._statuses.get("boxes")
        fresh = boxes is not None and boxes.up and time.time() - (boxes.last_success_time or 0) < 5
        body = {
            "schema": 1,
            "healthy": fresh,
            "host": self._config.host,
            "sources": list(self._statuses.values()),
            "damaged_boxes": list(self._boxes.damaged.values()),
        }
        return json_response(body, 200 if fresh else 503)

    def app(self) -> web.Application:
        """The HTTP door, with the loops running behind it."""
        app = web.Application()
        app.add_routes(
            [
                web.get("/metrics", self.get_metrics),
                web.get("/healthz", self.get_health),
                web.get("/api/v1/snapshot", self.get_snapshot),
                web.get("/api/v1/suspects", self.get_suspects),
                web.get("/api/v1/evidence/{job_id}/{rank}", self.get_evidence),
            ]
        )
        app.cleanup_ctx.append(self._run)
        return app

    async def _run(self, app: web.Application) -> Any:
        tasks = [asyncio.create_task(self.watch_boxes())]
        tasks += [asyncio.create_task(self.watch_source(source)) for source in self._sources]
        yield
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _in_thread(read: Callable[[], Any]) -> asyncio.Future[Any]:
    """Run a reading in a thread of its own: one that hangs holds up neither the others nor the end of the agent."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Any] = loop.create_future()

    def tell(set_: Callable[[Any], None], value: Any) -> None:
        if not answer.done():
            set_(value)

    def run() -> None:
        try:
            reading = read()
        except Exception as error:
            told: tuple[Any, ...] = (tell, answer.set_exception, error)
        else:
            told = (tell, answer.set_result, reading)
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(*told)

    threading.Thread(target=run, daemon=True, name="zmon-source").start()
    return answer
