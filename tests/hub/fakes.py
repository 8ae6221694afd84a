"""Fake agents with scripted answers, and a hub that asks them."""

import asyncio
import inspect
import time
from contextlib import AsyncExitStack, asynccontextmanager
from urllib.parse import parse_qsl, urlsplit

import msgspec
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from tests.build import JOB, agent_report, raised, rank_state, step_record, terminated, waiting
from zmon.hub import Hub, HubConfig
from zmon.schema.api.packed import CONTENT_TYPE, pack
from zmon.schema.host import HostSample

TIMEOUT_SECONDS = 5.0  # long enough for a busy machine


class FakeAgent:
    """An agent that reports these ranks. A test changes its answers by keyword or later, by the names below."""

    def __init__(self, *ranks, host="node-a", **changes):
        self.host = host
        self.ranks = ranks
        self.requests = []  # path and query of each request
        self.down = False  # it aborts each connection
        self.hangs = False  # it does not answer requests for a report
        self.is_older = False  # it knows no packed reports
        self.spoil = bytes  # a function that may change the bytes of a packed report
        # The report:
        self.sample = HostSample()
        self.records = {}  # records of steps by job id and run uid, for the next report alone
        self.cursor = 0
        self.plans = {}  # by run uid
        self.plans_version = ""
        # The answer to a long poll:
        self.suspects = []
        self.version = 0  # of the suspects
        self.leaving = False
        # The evidence of each rank:
        self.rank_behind = 2  # it has not entered the collective in which the others are
        self.silent_ranks = ()  # their evidence never arrives
        self.gone_ranks = ()  # their process is gone
        self.stack = ""  # the stack of all ranks; empty: a text with the rank
        self.work = None
        self.outside_loops = None
        self.stderr_tail = None
        # Acts:
        self.acts = []  # the requests
        self.answer_act = None  # a function that returns changes of the answer, or a response in its place
        assert all(hasattr(self, name) for name in changes)
        vars(self).update(changes)

    @asynccontextmanager
    async def serve(self):
        """Serve HTTP at `url`."""
        app = web.Application()
        app.add_routes(
            [
                web.get("/api/v1/snapshot", self.snapshot),
                web.get("/api/v1/suspects", self.poll),
                web.get("/api/v1/evidence/{job_id}/{rank}", self.evidence),
                web.post("/api/v1/acts", self.act),
            ]
        )
        async with TestServer(app) as server:
            self.url = str(server.make_url("")).rstrip("/")
            yield self

    def check(self, request):
        """Record a request; abort its connection if the agent is down."""
        self.requests.append(request.path_qs)
        if self.down:
            request.transport.abort()
            raise web.HTTPServiceUnavailable

    async def snapshot(self, request):
        """Answer with the report, packed if the hub accepts that."""
        self.check(request)
        while self.hangs:
            await asyncio.sleep(0.02)
        self.cursor += 1
        has_plans = request.query.get("plans", "") == self.plans_version
        report = agent_report(
            *self.ranks,
            host=self.host,
            sample=self.sample,
            records=self.records,
            cursor=self.cursor,
            plans={} if has_plans else self.plans,
            plans_version=self.plans_version,
        )
        self.records = {}
        if request.headers.get("Accept") == CONTENT_TYPE and not self.is_older:
            body = pack(report, request.query.get("known", ""))
            return web.Response(body=self.spoil(body), content_type=CONTENT_TYPE)
        return web.json_response(body=msgspec.json.encode(report))

    async def poll(self, request):
        """Answer once the suspects have another version than the hub has, or its long poll is over."""
        self.check(request)
        deadline = time.monotonic() + float(request.query["wait"])
        while str(self.version) == request.query.get("since") and time.monotonic() < deadline and not self.down:
            await asyncio.sleep(0.01)
        self.check(request)
        answer = {"schema": 1, "version": self.version, "suspects": self.suspects, "leaving": self.leaving}
        return web.json_response(answer)

    async def evidence(self, request):
        """Answer with the evidence of a rank."""
        self.check(request)
        rank = int(request.match_info["rank"])
        if rank in self.silent_ranks:
            await asyncio.sleep(60)
        stack = (self.stack or f"stack of rank {rank}") if request.query.get("stacks", "1") == "1" else None
        operation = {"group": "gloo:0", "sequence": 301, "op": "all_reduce", "name": "gloo:all_reduce",
                     "num_bytes": 288, "sizes": [[72]], "dtypes": ["Float"], "age_seconds": 1.5,
                     "state": "scheduled"}  # fmt: skip
        pending = [] if rank == self.rank_behind else [operation]
        flight = {"pending": pending, "num_pending": len(pending), "last": {"gloo:0": 300}}
        if is_gone := rank in self.gone_ranks:
            stack = flight = None
        return web.json_response(
            {"schema": 1, "job_id": "job", "rank": rank, "run_uid": request.query.get("run", ""), "alive": not is_gone,
             "stack": stack, "flight": flight, "flight_error": "its process is gone" if is_gone else None,
             "work": self.work, "stderr_tail": self.stderr_of(rank), "stderr_path": "/err", "stderr_shared": False,
             "outside_loops": self.outside_loops}
        )  # fmt: skip

    def stderr_of(self, rank):
        """Return the last lines of a rank's stderr; None: unknown."""
        return self.stderr_tail

    async def act(self, request):
        """Record a request for an act; answer that it was done, unless `answer_act` says otherwise."""
        self.check(request)
        self.acts.append(await request.json())
        answer = {"result": "acted", "reason": "SIGKILL to process 1002", "host": self.host, "time": time.time()}
        given = self.answer_act() if self.answer_act else {}
        return given if isinstance(given, web.Response) else web.json_response({**answer, **given})

    def evidence_requests(self):
        """Return the requests for evidence that are no looks, in their order, as `<rank>?stacks=<0 or 1>`."""
        return [
            f"{rank}?stacks={query.get('stacks', '1')}"
            for rank, query in self._evidence_paths()
            if "flights" not in query
        ]

    def looks(self):
        """Return the ranks of all looks in their order. A look is a request for evidence without flight records."""
        return [int(rank) for rank, query in self._evidence_paths() if query.get("flights") == "0"]

    def _evidence_paths(self):
        paths = [urlsplit(path) for path in self.requests if "evidence" in path]
        return [(url.path.rpartition("/")[2], dict(parse_qsl(url.query))) for url in paths]


def stopped(rank, **changes):
    """Return a rank that has been stopped for two seconds."""
    return rank_state(rank, process_state="T", stopped_seconds=2.0, step_seconds=2.0, **changes)


def frozen():
    """Return ranks of which rank 2 is stopped; the others wait for it."""
    return [stopped(2), *(waiting(rank, 1.0) for rank in (0, 1, 3))]


def healthy():
    """Return four ranks that train."""
    return [rank_state(rank) for rank in range(4)]


def failed(gone=2.0, **changes):
    """Return ranks of which rank 2 raised an exception this long ago; the launcher ended the others a second later."""
    return [raised(2, gone, **changes), *(terminated(rank, gone - 1.0, **changes) for rank in (0, 1, 3))]


def step_records(first, last, ranks=range(4), uid="uid-{}"):
    """Return the records of these steps, 20 ms each, by job id and run uid."""
    return {JOB: {uid.format(rank): tuple(map(step_record, range(first, last + 1))) for rank in ranks}}


class HubClient:
    """A client of the hub's HTTP API, and the hub itself."""

    def __init__(self, client, hub):
        self.client, self.hub = client, hub

    async def get(self, path, status=200):
        """Return the JSON of an answer, which must have this status."""
        async with self.client.get(path) as answer:
            assert answer.status == status
            return await answer.json()

    async def findings(self, query="?active=1"):
        """Return the findings that the query selects, by default the active ones."""
        return (await self.get(f"/api/v1/findings{query}"))["findings"]

    async def no_findings(self):
        """Return True if no finding is active."""
        return not await self.findings()

    async def jobs(self):
        return (await self.get("/api/v1/jobs"))["jobs"]

    async def health(self, name):
        """Return this value of /healthz, whether the hub is healthy or not."""
        async with self.client.get("/healthz") as answer:
            return (await answer.json())[name]

    async def metric(self, start):
        """Return the values of the lines of /metrics that begin with `start`."""
        async with self.client.get("/metrics") as answer:
            lines = (await answer.text()).splitlines()
        return [float(line.split()[-1]) for line in lines if line.startswith(start)]

    async def heartbeat(self):
        """Return a list of the unix time of the last pass; empty: the hub has made none."""
        return await self.metric("zmon_hub_last_pass_timestamp_seconds")

    async def passes(self, number=3):
        """Wait for this number of further passes."""
        for _ in range(number):
            before = await self.heartbeat()
            assert await poll(self.heartbeat, until=before.__ne__) != before


async def poll(probe, seconds=TIMEOUT_SECONDS, until=bool):
    """Call a function or coroutine function until its answer is the wanted one or the time is over; return the last."""
    deadline = time.monotonic() + seconds
    while True:
        answer = probe()
        if inspect.isawaitable(answer):
            answer = await answer
        if until(answer) or time.monotonic() >= deadline:
            return answer
        await asyncio.sleep(0.02)


@asynccontextmanager
async def hub_over(tmp_path, *agents, **config):
    """Yield a client of a hub that asks these agents, with short intervals."""
    quick = {"interval_seconds": 0.02, "alert_interval_seconds": 0.02, "wait_seconds": 0.3, **config}
    hub = Hub(HubConfig(tuple(agent.url for agent in agents), tmp_path, **quick))
    async with TestClient(TestServer(hub.app())) as client:
        yield HubClient(client, hub)


@asynccontextmanager
async def contexts(agents):
    """Serve these agents."""
    async with AsyncExitStack() as stack:
        for agent in agents:
            await stack.enter_async_context(agent.serve())
        yield


def two_agents():
    """Return the agents of two hosts with two ranks each, which have been training for a minute."""
    of_node_a = [rank_state(rank, activity_seconds=60.0) for rank in (0, 1)]
    of_node_b = [rank_state(rank, activity_seconds=60.0, host="node-b") for rank in (2, 3)]
    return FakeAgent(*of_node_a), FakeAgent(*of_node_b, host="node-b")


def all_waiting():
    """Return ranks that all wait in the same collective; the cause is unknown."""
    return [waiting(rank, 8.0) for rank in range(4)]
