"""A simulated cluster: agents that answer over HTTP like real ones, with ranks that step every 250 ms.

One process simulates all agents, each under its own path. A POST to `/strike/<rank>` stops that rank, and one to
`/continue` lets it go on.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from aiohttp import web

from zmon.schema.api.agent import AgentReport
from zmon.schema.api.packed import CONTENT_TYPE, pack
from zmon.schema.host import HostLoad, HostSample, NicSample, SourceStatus
from zmon.schema.names import PHASES
from zmon.schema.rank import InFlight, RankState
from zmon.schema.steps import STEP, Steps
from zmon.web.responses import json_response

RANKS_PER_AGENT = 8
STEP_SECONDS = 0.25
_MAX_STEPS = 8  # in one report
_NUM_KINDS = 64  # ranks of a kind have the same steps; kinds differ in computation and communication
_OPS = ("all_to_all", "all_reduce", "all_gather", "reduce_scatter")
_NAMES = (
    STEP, "samples", "lookups", *(f"phase_{phase}" for phase in PHASES),
    *(f"{part}_{op}" for part in ("exposed", "bytes_sent", "bytes_received") for op in _OPS),
)  # fmt: skip
_SOURCES = ("boxes", "gpu", "nic", "rdma", "tcp", "host", "storage", "cgroup", "clock", "kernel", "processes")


class StoppedRank(NamedTuple):
    """The rank that is stopped now."""

    rank: int
    since: float  # on the monotonic clock


class Cluster:
    """The agents of one job, with eight ranks each."""

    def __init__(self, num_ranks: int) -> None:
        self._num_ranks = num_ranks
        self._begin = time.monotonic()
        self._stopped: StoppedRank | None = None
        self._changes = 0  # ranks stopped and continued so far
        self._changed = asyncio.Event()
        self._sent_bytes = 0  # in reports
        self.elapsed: float | None = None  # seconds of the job; None: by the clock

    def app(self) -> web.Application:
        """Return the application with all agents and the endpoint that stops a rank."""
        app = web.Application()
        app.add_routes(
            [
                web.get("/agent/{agent}/api/v1/snapshot", self.get_snapshot),
                web.get("/agent/{agent}/api/v1/suspects", self.get_suspects),
                web.get("/agent/{agent}/api/v1/evidence/{job_id}/{rank}", self.get_evidence),
                web.get("/sent_bytes", self.get_sent_bytes),
                web.post("/strike/{rank}", self.strike),
                web.post("/continue", self.go_on),
            ]
        )
        return app

    async def strike(self, request: web.Request) -> web.Response:
        """Stop a rank."""
        self._stopped = StoppedRank(int(request.match_info["rank"]), time.monotonic())
        return self._report_change()

    async def go_on(self, request: web.Request) -> web.Response:
        """Let the stopped rank go on."""
        if self._stopped is not None:
            self._begin += time.monotonic() - self._stopped.since  # the steps go on where they stopped
            self._stopped = None
        return self._report_change()

    def _report_change(self) -> web.Response:
        self._changes += 1
        self._changed.set()
        self._changed = asyncio.Event()
        return web.Response()

    async def get_sent_bytes(self, request: web.Request) -> web.Response:
        """Answer with the bytes of all reports so far."""
        return web.Response(text=str(self._sent_bytes))

    async def get_snapshot(self, request: web.Request) -> web.Response:
        """Answer like an agent: its ranks, its host, and the steps since the last request, at most _MAX_STEPS."""
        agent, since = int(request.match_info["agent"]), int(request.query.get("since", -1))
        if request.headers.get("Accept") == CONTENT_TYPE:
            body = self.packed_report(agent, since, request.query.get("known", ""))
            self._sent_bytes += len(body)
            return web.Response(body=body, content_type=CONTENT_TYPE)
        response = json_response(self.report(agent, since))
        assert isinstance(response.body, bytes)
        self._sent_bytes += len(response.body)
        return response

    def packed_report(self, agent: int, since: int, known: str) -> bytes:
        """Return the packed report of an agent, for a client that has this version of its resting rows."""
        return pack(self.report(agent, since), known)

    def report(self, agent: int, since: int) -> AgentReport:
        """Return the report of an agent: its ranks, its host, and the steps since the last one, at most _MAX_STEPS."""
        done = self._steps_done()
        ranks = tuple(self._rank(agent * RANKS_PER_AGENT + local, done) for local in range(RANKS_PER_AGENT))
        fresh = range(max(since, done - _MAX_STEPS) + 1, done + 1) if since >= 0 else range(0)
        uids = tuple(rank.run_uid for rank in ranks)
        steps = replace(_steps(fresh, agent % (_NUM_KINDS // RANKS_PER_AGENT)), run_uids=uids)
        return AgentReport(
            f"node-{agent}", time.time(), version="bench", ranks=ranks, sample=_SAMPLE, sources=_STATUSES,
            steps={"bench": (steps,)}, cursor=done,
        )  # fmt: skip

    async def get_suspects(self, request: web.Request) -> web.Response:
        """Answer the long poll for suspects: the stopped rank, if it is one of this agent's ranks."""
        agent, since = int(request.match_info["agent"]), int(request.query.get("since", 0))
        if since == self._changes:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(float(request.query.get("wait", 0))):
                    await self._changed.wait()
        suspects = []
        if self._stopped is not None and self._stopped.rank // RANKS_PER_AGENT == agent:
            suspects = [{"job_id": "bench", "rank": self._stopped.rank}]
        return json_response({"schema": 1, "version": self._changes, "suspects": suspects})

    async def get_evidence(self, request: web.Request) -> web.Response:
        """Answer with a stack of 60 lines."""
        return json_response({"stack": 'File "train.py", line 12 in step\n' * 60, "stack_error": None, "flight": None})

    def _steps_done(self) -> int:
        if self.elapsed is not None:
            return int(self.elapsed / STEP_SECONDS)
        until = self._stopped.since if self._stopped else time.monotonic()
        return int((until - self._begin) / STEP_SECONDS)

    def _rank(self, rank: int, done: int) -> RankState:
        state = replace(RANK, rank=rank, run_uid=f"uid-{rank}", host=f"node-{rank // RANKS_PER_AGENT}", step=done,
                        steps=done, local_rank=rank % RANKS_PER_AGENT, world_size=self._num_ranks)  # fmt: skip
        if self._stopped is None:
            return state
        elapsed = time.monotonic() - self._stopped.since
        if rank == self._stopped.rank:
            state = replace(state, process_state="T", stopped_seconds=elapsed)
            return replace(state, step_seconds=elapsed, state_seconds=elapsed)
        in_flight = InFlight("all_to_all", "0", 301, 4096, elapsed)
        return replace(state, in_flight=in_flight, step_seconds=elapsed, state_seconds=elapsed)


@lru_cache(8 * _NUM_KINDS)
def _steps(numbers: range, kind: int) -> Steps:
    """Return the steps of the ranks of an agent, made once for all agents of a kind."""
    kinds = range(kind * RANKS_PER_AGENT, (kind + 1) * RANKS_PER_AGENT)
    return Steps.from_rows(
        _NAMES, {str(rank_kind): [_row(number, rank_kind) for number in numbers] for rank_kind in kinds}
    )


def _row(number: int, kind: int) -> tuple[int, ...]:
    draw = random.Random(number * _NUM_KINDS + kind)
    phases = [round(30_000_000 * draw.uniform(0.9, 1.1)) for _ in PHASES]
    received = [draw.randrange(10_000_000) for _ in _OPS]
    exposed = [10_000_000] * len(_OPS)
    sent = [10_000_000 + 1000 * kind] * len(_OPS)
    return (number, 32, draw.randrange(26_000), *phases, *exposed, *sent, *received)


RANK = RankState(
    job_id="bench", attempt=0, run_uid="", start=1.8e9, rank=0, local_rank=0, world_size=0, host="", pid=4242,
    device="GPU-5f2d0c8a-7a51-3d55-8a4b-0a6f2b6d0c11", backend="nccl", launcher="900@1", restart_count=0,
    max_restarts=0, labels={"name": "bench", "model": "dlrm"}, alive=True, process_state="S", exit_status=None,
    gone_seconds=None, stopped_seconds=None, activity="train", activity_seconds=50.0, phase="forward", step=0,
    step_seconds=0.1, state_seconds=0.05, in_flight=None, sequences={"0": 300, "1": 600}, lease_seconds=3.75,
    overdue_seconds=0.0, steps=0, step_seconds_total=2.0, totals=None,
    report={"loss": 0.5, "normalized_entropy": 0.81}, last_words=None, last_step_time=1.8e9,
    last_checkpoint_time=1.8e9, overhead_seconds=0.1, dropped_records=0, resident_bytes=4_000_000_000,
)  # fmt: skip
_NICS = tuple(NicSample(f"eth{n}", "tcp", True, 25e9, 10**12, 10**12, {"rx_errors": 0, "tx_errors": 0}) for n in (0, 1))
_SAMPLE = HostSample(nics=_NICS, load=HostLoad({"user": 1e5, "idle": 1e6}, 10**12, 2 * 10**12, 0))


def sources(now: float) -> tuple[SourceStatus, ...]:
    """Return the status of all sources of an agent; all of them work."""
    return tuple(
        SourceStatus(
            name, up=True, absent=False, duration_seconds=0.002, last_success_time=now, num_errors=0, error=None
        )
        for name in _SOURCES
    )


_STATUSES = sources(1.8e9)


def serve(num_ranks: int, port: int) -> None:
    """Answer requests until the process ends."""
    app = Cluster(num_ranks).app()
    web.run_app(app, host="127.0.0.1", port=port, backlog=4096, access_log=None, print=None, handle_signals=False)
