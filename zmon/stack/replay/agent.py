"""A recorded agent over HTTP: it answers hub and Prometheus as the agent of its host did, or not at all.

`python -m zmon.stack.replay.agent NAME BEGIN PORT …` plays the agents of a recording until a signal, with a port for
each host. BEGIN is the unix time of the beginning of the recording; it may be in the past.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import NoReturn

import psutil
from aiohttp import web

from zmon import metrics
from zmon.agent.current_suspects import CurrentSuspects
from zmon.agent.exported import exported_ranks
from zmon.schema import api
from zmon.schema.api import endpoints
from zmon.schema.api.agent import AgentReport
from zmon.schema.api.packed import pack
from zmon.stack.replay import LOOPBACK, load
from zmon.stack.replay.host import RecordedHost
from zmon.web.responses import Refusal
from zmon.web.server import application, route

_SUSPECTS_SECONDS = 0.1  # as often as an agent looks at the boxes
_MAX_WAIT_SECONDS = 60.0  # of a request for suspects
_SHUTDOWN_SECONDS = 0.5  # for requests that are being answered


class ReplayedAgent:
    """The agent of one host of a recording, which begins to be played at the unix time `begin`."""

    def __init__(self, host: RecordedHost, begin: float) -> None:
        self._host, self._begin = host, begin
        self._shift_seconds = begin - host.recording.began
        self._suspects = CurrentSuspects()
        self._process = psutil.Process()

    @property
    def _at(self) -> float:
        """The seconds since the recording began to be played."""
        return time.time() - self._begin

    async def snapshot(self, request: api.SnapshotRequest) -> AgentReport:
        """Answer with what the agent reported then."""
        report = self._host.report(self._at, self._shift_seconds, request)
        return await _silence() if report is None else report

    async def suspects(self, request: api.SuspectsRequest) -> api.Suspects:
        """Answer when the suspects differ from those of version `since`, or after `wait` seconds."""
        suspects = await self._suspects.answer(request, _MAX_WAIT_SECONDS)
        return await _silence() if self._is_silent else suspects

    async def evidence(self, request: api.EvidenceRequest) -> api.RankEvidence:
        """Answer with the evidence about one rank that was recorded last."""
        if self._is_silent:
            return await _silence()
        rank = int(request.rank) if request.rank.isdecimal() else -1
        answer = self._host.evidence(self._at, self._shift_seconds, rank)
        if answer is None:
            raise Refusal(404, f"no evidence about rank {request.rank} was recorded")
        return answer

    async def health(self, request: api.AgentHealthRequest) -> api.AgentHealth:
        """Answer that the agent is healthy, even for a host that is lost, and with the state of its sources then."""
        report = self._host.report(self._at, self._shift_seconds, api.SnapshotRequest())
        return api.AgentHealth(True, self._host.host.host, [], report.sources if report else ())

    async def get_metrics(self, request: web.Request) -> web.Response:
        report = await self.snapshot(api.SnapshotRequest())
        shown = exported_ranks(report.ranks)
        cpu = self._process.cpu_times()
        body = metrics.agent_page(
            replace(report, ranks=shown.ranks), cpu.user + cpu.system, self._process.memory_info().rss
        )
        return web.Response(body=body, headers={"Content-Type": metrics.CONTENT_TYPE})

    def app(self) -> web.Application:
        app = application()
        app.add_routes(
            [
                web.get(endpoints.METRICS, self.get_metrics),
                route(endpoints.AGENT_HEALTH, self.health),
                route(endpoints.SNAPSHOT, self.snapshot, packed=lambda request, report: pack(report, request.known)),
                route(endpoints.SUSPECTS, self.suspects),
                route(endpoints.EVIDENCE, self.evidence),
            ]
        )
        app.cleanup_ctx.append(self._follow_suspects)
        return app

    @property
    def _is_silent(self) -> bool:
        return self._host.recorded_report(self._at).report is None

    async def _follow_suspects(self, app: web.Application) -> AsyncIterator[None]:
        async def follow() -> None:
            while True:
                self._suspects.update(frozenset(self._host.recorded_report(self._at).suspects))
                await asyncio.sleep(_SUSPECTS_SECONDS)

        task = asyncio.create_task(follow())
        yield
        task.cancel()


async def _silence() -> NoReturn:
    """Never answer, as a host that is cut off: whoever asks gives up after a while."""
    await asyncio.Event().wait()
    raise AssertionError("nothing sets the event")


async def play(name: str, begin: float, ports: Sequence[int]) -> None:
    """Answer as the agents of a recording until SIGTERM or SIGINT."""
    recording = load(name)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    runners = []
    for host, port in zip(recording.hosts, ports, strict=True):
        agent = ReplayedAgent(RecordedHost(recording, host), begin)
        runners.append(
            web.AppRunner(agent.app(), access_log=None, handler_cancellation=True, shutdown_timeout=_SHUTDOWN_SECONDS)
        )
        await runners[-1].setup()
        await web.TCPSite(runners[-1], LOOPBACK, port, reuse_address=True).start()
    await stop.wait()
    await asyncio.gather(*(runner.cleanup() for runner in runners))


if __name__ == "__main__":
    asyncio.run(play(sys.argv[1], float(sys.argv[2]), [*map(int, sys.argv[3:])]))
