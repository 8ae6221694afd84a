"""The agent of a node: it reads the black boxes and the hardware, reports suspects at once, and answers over HTTP.

The agent needs nothing from the job's code, keeps running when a source fails, and never reports a guess: the values
of a source are shown only while it answers. While the boxes cannot be read, the agent refuses the snapshot. The hub
then knows that these ranks are unwatched, and does not take them for gone.

It reads `/dev/shm`, `/proc`, `/sys`, `/dev/kmsg`, NVML and netlink, and starts py-spy. It sends packets to other hosts
only while a rank makes no progress, or while data to a peer times out. It asks the API server of Kubernetes only with
`--pods-of-node`. `poller` reads the sources, `box_thread` reads the boxes, `snapshot` answers the hub, `evidence` and
`rank_evidence` collect evidence, and `acts` ends ranks.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from functools import partial

import psutil
from aiohttp import web

import zmon
from zmon import metrics
from zmon.act_stops import stops
from zmon.agent.acts import Acts, check_asker
from zmon.agent.box_thread import BoxThread
from zmon.agent.config import AgentConfig
from zmon.agent.current_suspects import CurrentSuspects
from zmon.agent.devices import Devices
from zmon.agent.exported import exported_ranks
from zmon.agent.poller import Poller, QuestionOrder, change_line
from zmon.agent.rank_evidence import StderrTails, locate_rank, rank_evidence
from zmon.agent.snapshot import NodeRanks, is_history, node_ranks, with_history
from zmon.agent.sources import Reading, Source, all_sources
from zmon.agent.sources.pods import PodSource
from zmon.agent.sources.stderr import StderrSource
from zmon.errors import SourceUnavailable
from zmon.format import plain
from zmon.schema.act import ActAnswer, ActRequest
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
from zmon.schema.api.agent import AgentReport
from zmon.schema.api.packed import pack
from zmon.schema.host import GpuSample, HostSample, SourceStatus
from zmon.schema.thresholds import changed
from zmon.steplog import FOLDER, StepLog
from zmon.web.access import ROLES
from zmon.web.asker import Asker, route_for
from zmon.web.live_config import reload_success
from zmon.web.responses import Refusal
from zmon.web.server import application, route
from zmon.web.work_queue import SharedPage, WorkQueue

log = logging.getLogger("zmon.agent")

_STEPS = "steps"  # the step log, by the name that --without takes
_FINAL_APPEND_SECONDS = 1.0  # timeout of the last append to the step log, because a disk may hang
_STOPS_INTERVAL_SECONDS = 1.0  # time between two reads of the stops of acts


class Agent:
    """One node's agent: its pollers, its suspects, and the handlers of its HTTP endpoints."""

    def __init__(self, config: AgentConfig, sources: tuple[Source, ...] | None = None) -> None:
        self._config = config
        self._box_thread = BoxThread(config, self._on_scan)
        self._pods = self._pod_poller(config.pods) if config.pods is not None else None
        if sources is None:
            sources = all_sources(
                self._box_thread.processes,
                stands_still=self._stands_still,
                gpus=self._gpus,
                states=self._box_thread.states,
                leases=config.leases,
                pods=lambda: self._pods.value if self._pods else None,
            )
        config.check_names([*(source.name for source in sources), StderrSource.name, _STEPS])
        timeout, core_ratio = config.source_timeout_seconds, config.source_core_ratio
        self._sources = {
            source.field: Poller(source.name, source.read, source.interval_seconds, timeout, core_ratio=core_ratio)
            for source in sources
            if source.name not in config.without
        }
        self._stderr: StderrTails | None = None
        if StderrSource.name not in config.without:
            self._stderr = StderrTails(lambda: self._box_thread.boxes.runs, timeout)
        self._step_log = self._step_log_poller()
        self._acts = Acts(config.data_dir, config.host, self._box_thread.ask_and_wait, config.allow_actions)
        self._stops = self._stops_poller()
        optional = (self._pods, self._stderr.poller if self._stderr else None, self._step_log, self._stops)
        self._pollers = [self._box_thread.poller, *self._sources.values(), *(poller for poller in optional if poller)]
        self._devices = Devices()
        self._suspects = CurrentSuspects()
        self._page = SharedPage(self.page)
        self._histories = WorkQueue()  # requests for all steps wait here for each other
        self._evidence = WorkQueue(config.max_evidence)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._process = psutil.Process()

    def _step_log_poller(self) -> Poller | None:
        """Return the poller that appends to the step log; None if there is none."""
        config = self._config
        if config.data_dir is None or _STEPS in config.without:
            return None
        log = StepLog(config.data_dir / FOLDER, config.host)

        def append() -> Reading:
            boxes = self._box_thread.boxes
            return Reading(None, log.append(boxes.files, boxes.renamed))

        return Poller(_STEPS, append, config.log_interval_seconds, config.source_timeout_seconds)

    def _stops_poller(self) -> Poller | None:
        """Return the poller of the stops of acts, for /metrics; None if acts are not allowed."""
        data_dir = self._config.data_dir
        if data_dir is None or not self._config.allow_actions:
            return None
        timeout = self._config.source_timeout_seconds
        return Poller("acts", lambda: Reading(stops(data_dir)), _STOPS_INTERVAL_SECONDS, timeout)

    def _on_scan(self, suspects: frozenset[Suspicion]) -> None:
        """Hand changed suspects to the event loop. Called by the thread that scans the boxes."""
        if suspects != self._suspects.now and self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: no request waits any more
                self._loop.call_soon_threadsafe(self._suspects.update, suspects)

    def _stands_still(self) -> bool:
        """Return True while a rank of this host makes no progress."""
        return any(suspicion.reason == "overdue" for suspicion in self._suspects.now)

    def _gpus(self) -> Sequence[GpuSample] | None:
        """Return the last samples of the GPUs; None if they are unknown. Raises SourceUnavailable if there are none."""
        poller = self._sources.get("gpus")
        if poller is None or (status := poller.status) is None or status.absent:
            raise SourceUnavailable("cannot tell who holds GPUs", "no GPU is read on this host")
        gpus: Sequence[GpuSample] | None = poller.value
        return gpus

    def _pod_poller(self, pods: PodSource) -> Poller:
        """Return the poller of the pods that hold GPUs. The API server is not asked on a node without GPUs."""

        def read() -> Reading:
            self._gpus()
            return pods.read()

        return Poller(pods.name, read, pods.interval_seconds, pods.timeout_seconds)

    def statuses(self) -> tuple[SourceStatus, ...]:
        """Return the status of each source that has been read, or should have been by now."""
        return tuple(status for poller in self._pollers if (status := poller.status))

    def _report(self, node: NodeRanks) -> AgentReport:
        """Return these ranks with the last values and the statuses of all sources."""
        sample = HostSample(**{field: poller.value for field, poller in self._sources.items()})
        return AgentReport(
            host=self._config.host,
            time=time.time(),
            monotonic=time.monotonic(),
            version=zmon.__version__,
            box_dir="" if self._config.box_dir is None else plain(str(self._config.box_dir)),
            box_dirs=self._box_thread.boxes.roots.patterns,
            ranks=self._devices.add(node.ranks, sample.gpus or ()),
            sample=sample,
            sources=self.statuses(),
            steps=dict(node.steps),
            cursor=node.cursor,
            plans=dict(node.plans),
            plans_version=node.plans_version,
            leases=changed(self._config.leases, "leases"),
            refuses_acts=self._acts.refuses(ROLES.get()),
            unread=node.unread,
        )

    async def snapshot(self, request: SnapshotRequest) -> AgentReport:
        """Answer with every rank and the hardware of this node, and the steps that the request selects."""
        node = await self._box_thread.ask(partial(node_ranks, request=request))
        ask_later = partial(self._box_thread.ask, order=QuestionOrder.HISTORY)
        return self._report(await with_history(ask_later, request, node, self._config.max_steps_per_rank))

    async def page(self) -> bytes:
        """Return the page of /metrics. It shows no rank while the boxes cannot be read."""
        try:
            report = await self.snapshot(SnapshotRequest())
            self._devices.keep(state.run_uid for state in report.ranks)
        except Refusal:
            report = self._report(NodeRanks(0))
        cpu = self._process.cpu_times()
        shown = exported_ranks(report.ranks)
        return metrics.agent_page(
            replace(report, ranks=shown.ranks),
            cpu_seconds=cpu.user + cpu.system,
            resident_bytes=self._process.memory_info().rss,
            reload_success=reload_success(self._config.web),
            jobs_left_out=shown.num_left_out,
            max_series=self._config.max_series,
            acts=self._acts.counts if self._config.allow_actions else None,
            act_stops={name: stop.kind for name, stop in (self._stops.value or {}).items()} if self._stops else {},
        )

    async def suspects(self, request: SuspectsRequest) -> Suspects:
        """Answer when the suspects differ from those of version `since`, or after `wait` seconds."""
        self._box_thread.check()
        return await self._suspects.answer(request, self._config.max_wait_seconds)

    async def evidence(self, request: EvidenceRequest, asker: Asker) -> RankEvidence:
        """Answer with stacks, collectives in flight and the end of stderr of one rank, dead or alive.

        The answer has what the job prints. If clients must authenticate (`--web.config.file`), only the role `evidence`
        may read it. Otherwise only local users may: the user of the job, the agent's user, root and each `--hub-user`.
        """
        if asker.uid is None and not asker.may_read_evidence:
            raise Refusal(
                403,
                "evidence is for the role evidence, and over loopback for the user of the job, root and --hub-user: "
                f"{asker.reason}",
            )
        rank = await self._box_thread.ask(partial(locate_rank, request=request))
        if rank is None:
            raise Refusal(
                404, f"no rank {request.rank} of job {request.job_id} on this node: zmon status lists jobs and ranks"
            )
        owner = rank.socket.owner
        if not asker.may_read_evidence and asker.uid not in (0, os.geteuid(), owner, *self._config.hub_users):
            raise Refusal(403, f"uid {asker.uid} may not read the evidence of uid {owner}: see --hub-user")
        return await rank_evidence(request, rank, self._stderr)

    async def act(self, request: ActRequest, asker: Asker) -> ActAnswer:
        """End a rank, or a launcher, if `Acts` decides so. Raises Refusal if the asker has no right to request acts."""
        check_asker(asker, self._config.hub_users)
        return await self._acts.answer(request)

    async def get_metrics(self, request: web.Request) -> web.Response:
        """Answer a scrape by Prometheus."""
        return web.Response(body=await self._page.get(), headers={"Content-Type": metrics.CONTENT_TYPE})

    async def health(self, request: AgentHealthRequest) -> AgentHealth:
        """Answer with the state of all sources. The agent is healthy while it can read the boxes."""
        boxes = self._box_thread.poller.status
        healthy = boxes is not None and boxes.up
        down = [
            SourceDown(poller.name, poller.down_since, status.error)
            for poller in self._pollers
            if poller.down_since and (status := poller.status)
        ]
        return AgentHealth(healthy, self._config.host, down, self.statuses(), changed(self._config.leases, "leases"))

    def app(self) -> web.Application:
        """Return the HTTP application; the sources are read while it runs."""
        boxes = self._box_thread.poller
        app = application(self._config.allowed_hosts, self._config.web, is_ready=lambda: boxes.status is not None)
        app.add_routes(
            [
                web.get(endpoints.METRICS, self.get_metrics),
                route(endpoints.AGENT_HEALTH, self.health, lambda health: 200 if health.healthy else 503),
                route(
                    endpoints.SNAPSHOT,
                    self.snapshot,
                    turn=lambda request: self._histories.turn() if is_history(request) else contextlib.nullcontext(),
                    packed=lambda request, report: pack(report, request.known),
                ),
                route(endpoints.SUSPECTS, self.suspects),
                route_for(endpoints.EVIDENCE, self.evidence, turn=lambda _: self._evidence.turn()),
                route_for(endpoints.ACTS, self.act),
            ]
        )
        app.on_shutdown.append(self._suspects.leave)
        app.cleanup_ctx.append(self._run)
        return app

    async def _run(self, app: web.Application) -> AsyncIterator[None]:
        """Start the threads that read, and stop them when the application ends."""
        self._loop = asyncio.get_running_loop()
        for poller in self._pollers:
            poller.start()
        if self._config.allow_actions:
            threading.Thread(target=self._acts.open, daemon=True, name="zmon-acts").start()
        logging_task = asyncio.create_task(self._log_changes())
        yield
        logging_task.cancel()
        self._acts.close()
        if self._step_log is not None:  # append the steps since the last append
            with contextlib.suppress(Exception):
                async with asyncio.timeout(_FINAL_APPEND_SECONDS):
                    await asyncio.wrap_future(self._step_log.ask(self._step_log.read))
        self._box_thread.close_boxes()
        for poller in self._pollers:
            poller.stop()

    async def _log_changes(self) -> None:
        """Log each change in the status of a source."""
        logged: dict[str, SourceStatus] = {}
        while True:
            for status in self.statuses():
                if line := change_line(logged.get(status.name), status):
                    log.log(logging.INFO if status.absent else logging.WARNING, "%s", line)
                logged[status.name] = status
            await asyncio.sleep(1)


__all__ = ["Agent", "AgentConfig"]
