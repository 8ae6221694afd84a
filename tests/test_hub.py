"""The hub against agents that say what the test wants: it publishes, admits that it is blind, and forgets nothing."""

import asyncio
import time
from contextlib import asynccontextmanager
from dataclasses import replace

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from tests.build import JOB, agent_report, killed, rank_state, snapshot, step_record, waiting
from zmon.hub import Hub, HubConfig
from zmon.hub.view import job_state
from zmon.records import Finding

PATIENCE = 5.0  # seconds; a busy machine is not a failure


class FakeAgent:
    """An agent that reports these ranks."""

    def __init__(self, *ranks, host="node-a"):
        self.host, self.ranks = host, ranks
        self.suspects, self.version = [], 0
        self.records = {}
        self.down = self.hangs = False
        self.asked = []
        self.cursor = 0
        self.behind, self.mute = 2, ()  # the rank that did not enter; ranks whose evidence never comes

    @asynccontextmanager
    async def serve(self):
        app = web.Application()
        app.add_routes(
            [
                web.get("/api/v1/snapshot", self.snapshot),
                web.get("/api/v1/suspects", self.poll),
                web.get("/api/v1/evidence/{job_id}/{rank}", self.evidence),
            ]
        )
        async with TestServer(app) as server:
            self.url = str(server.make_url("")).rstrip("/")
            yield self

    def check(self, request):
        self.asked.append(request.path_qs)
        if self.down:
            request.transport.abort()
            raise web.HTTPServiceUnavailable

    async def snapshot(self, request):
        self.check(request)
        while self.hangs:
            await asyncio.sleep(0.02)
        self.cursor += 1
        report = agent_report(*self.ranks, host=self.host, records=self.records, cursor=self.cursor)
        self.records = {}
        return web.json_response(body=msgspec.json.encode(report))

    async def poll(self, request):
        self.check(request)
        deadline = time.monotonic() + float(request.query["wait"])
        while str(self.version) == request.query.get("since") and time.monotonic() < deadline and not self.down:
            await asyncio.sleep(0.01)
        self.check(request)
        return web.json_response({"schema": 1, "version": self.version, "suspects": self.suspects})

    async def evidence(self, request):
        self.check(request)
        rank = int(request.match_info["rank"])
        if rank in self.mute:
            await asyncio.sleep(60)
        told = f"stack of rank {rank}" if request.query["stacks"] == "1" else None
        one = {"group": "gloo:0", "sequence": 301, "op": "all_reduce", "name": "gloo:all_reduce", "num_bytes": 288,
               "sizes": [[72]], "dtypes": ["Float"], "age_seconds": 1.5, "state": "scheduled"}  # fmt: skip
        pending = [] if rank == self.behind else [one]
        flight = {"pending": pending, "num_pending": len(pending), "last": {"gloo:0": 300}}
        return web.json_response({"schema": 1, "stack": told, "flight": flight, "flight_error": None})

    def evidence_asked(self):
        """The ranks that were asked for evidence, in that order."""
        return [path.rpartition("/")[2].partition("&run=")[0] for path in self.asked if "evidence" in path]


def stopped(rank, **changes):
    return rank_state(rank, process_state="T", stopped_seconds=2.0, step_seconds=2.0, **changes)


def frozen():
    """Rank 2 is stopped, the others wait for it."""
    return [stopped(2), *(waiting(rank, 1.0) for rank in (0, 1, 3))]


def healthy():
    return [rank_state(rank) for rank in range(4)]


class Door:
    """The hub's HTTP door, and the hub behind it."""

    def __init__(self, client, hub):
        self.client, self.hub = client, hub

    async def get(self, path, status=200):
        async with self.client.get(path) as answer:
            assert answer.status == status
            return await answer.json()

    async def findings(self, query="?active=1"):
        return (await self.get(f"/api/v1/findings{query}"))["findings"]

    async def metric(self, start):
        """Values of the lines of /metrics that begin so."""
        async with self.client.get("/metrics") as answer:
            lines = (await answer.text()).splitlines()
        return [float(line.split()[-1]) for line in lines if line.startswith(start)]

    async def heartbeat(self):
        return await self.metric("zmon_hub_last_pass_timestamp_seconds")

    async def passes(self, number=3):
        """Wait for some more passes."""
        for _ in range(number):
            before = await self.heartbeat()

            async def beat(before=before):
                return await self.heartbeat() != before

            assert await until(beat)


async def until(probe, seconds=PATIENCE):
    """The first true answer of a coroutine function."""
    deadline = time.monotonic() + seconds
    while not (answer := await probe()) and time.monotonic() < deadline:
        await asyncio.sleep(0.02)
    return answer


@asynccontextmanager
async def hub_over(tmp_path, *agents, **config):
    quick = {"interval_seconds": 0.05, "alert_interval_seconds": 0.03, "wait_seconds": 0.3, **config}
    hub = Hub(HubConfig(tuple(agent.url for agent in agents), tmp_path, **quick))
    async with TestClient(TestServer(hub.app())) as client:
        yield Door(client, hub)


@pytest.fixture
def play(tmp_path):
    """Run a scenario with a hub over these agents."""

    def run(scenario, *agents, **config):
        async def main():
            async with contexts(agents), hub_over(tmp_path, *agents, **config) as door:
                await asyncio.wait_for(scenario(door), 20)

        asyncio.run(main())

    return run


@asynccontextmanager
async def contexts(agents):
    if not agents:
        yield
        return
    async with agents[0].serve(), contexts(agents[1:]):
        yield


# -- findings ----------------------------------------------------------------------------------------------


def test_hub_is_quiet_and_healthy_while_the_job_trains(play):
    async def scenario(door):
        await door.passes()
        assert await door.findings("") == []
        assert (await door.get("/healthz"))["healthy"] is True
        (job,) = (await door.get("/api/v1/jobs"))["jobs"]
        assert (job["job_id"], job["state"], job["ranks_seen"], job["world_size"]) == (JOB, "train", 4, 4)
        assert await door.metric("zmon_finding{") == []
        assert await door.metric("zmon_hub_coverage_ratio") == [1.0]

    play(scenario, FakeAgent(*healthy()))


def test_finding_is_published_everywhere_with_its_stack(play):
    agent = FakeAgent(*frozen())

    async def scenario(door):
        async def with_stack():
            found = await door.findings()
            return found[0] if found and "stacks" in found[0]["evidence"] else None

        found = await until(with_stack)
        assert msgspec.convert(found, Finding).cause == "rank_frozen"
        assert (found["schema"], found["ranks"], found["hosts"]) == (1, [2], ["node-a"])
        assert found["evidence"]["stacks"]["2"]["stack"] == "stack of rank 2"
        assert list(found["evidence"]["stacks"]) == ["2"]
        labels = 'cause="rank_frozen",detector="stall",host="node-a",job_id="job",rank="2",severity="critical"'
        assert await door.metric(f"zmon_finding{{{labels}}}") == [1.0]
        (job,) = (await door.get("/api/v1/jobs"))["jobs"]
        assert (job["state"], job["findings"]) == ("stalled", [found["id"]])

    play(scenario, agent)


def evidence_of(door):
    """Wait for the evidence of the one active finding: what every rank has in flight."""

    async def table():
        found = await door.findings()
        return found[0]["evidence"].get("in_flight") if found else None

    return until(table)


def silent():
    """Nothing moves, nobody knows why: all ranks wait in the same collective."""
    return [waiting(rank, 8.0) for rank in range(4)]


def test_stall_tells_what_every_rank_has_in_flight(play):
    """The rank that is behind is the one that has nothing pending where the others have."""
    agent = FakeAgent(*silent())

    async def scenario(door):
        table = await evidence_of(door)
        assert list(table) == ["0", "1", "2", "3"]
        assert table["2"] == {"pending": [], "num_pending": 0, "last": {"gloo:0": 300}}
        assert [(r, one["group"], one["sequence"], one["op"], one["num_bytes"]) for r in "013"
                for one in table[r]["pending"]] == [(r, "gloo:0", 301, "all_reduce", 288) for r in "013"]  # fmt: skip
        (found,) = await door.findings()
        assert found["cause"] == "unknown"
        assert "flight" not in found["evidence"]["stacks"]["2"]

    play(scenario, agent)


def test_all_ranks_are_asked_what_is_in_flight_and_only_the_culprit_for_its_stack(play):
    agent = FakeAgent(*frozen())

    async def scenario(door):
        assert list(await evidence_of(door)) == ["0", "1", "2", "3"]
        assert sorted(agent.evidence_asked()) == ["0?stacks=0", "1?stacks=0", "2?stacks=1", "3?stacks=0"]

    play(scenario, agent)


def test_evidence_is_gathered_once_and_again_when_the_finding_is_refined(play):
    agent = FakeAgent(*silent())

    async def scenario(door):
        assert await evidence_of(door)
        await door.passes(5)
        assert len(agent.evidence_asked()) == 4
        agent.ranks = frozen()

        async def again():
            return len(agent.evidence_asked()) == 8

        assert await until(again)
        assert (await door.findings())[0]["cause"] == "rank_frozen"
        await door.passes(5)
        assert await again()

    play(scenario, agent)


def test_rank_whose_evidence_never_comes_holds_up_neither_the_others_nor_the_hub(play):
    agent = FakeAgent(*silent())
    agent.mute = (1,)

    async def scenario(door):
        assert await until(door.findings)
        before = len(agent.asked)
        table = await evidence_of(door)
        assert len([path for path in agent.asked[before:] if "snapshot" in path]) > 3
        assert "answer within 1 s" in table["1"]["error"]
        assert [table[rank]["num_pending"] for rank in ("0", "2", "3")] == [1, 0, 1]

    play(scenario, agent, evidence_seconds=1.0)


def test_ranks_that_cannot_be_asked_are_in_the_table_with_the_reason(play):
    agent = FakeAgent(killed(2), *(waiting(rank, 1.0) for rank in (0, 1)))

    async def scenario(door):
        table = await evidence_of(door)
        assert table["0"]["num_pending"] == 1
        assert table["2"] == {"error": "its process is gone"}
        assert table["3"] == {"error": "no agent has seen it"}

    play(scenario, agent)


def test_finding_that_is_no_stall_asks_nobody_what_is_in_flight(play):
    here, there = halves()

    async def scenario(door):
        await door.passes()
        there.down = True
        door.hub.links[1]._heard -= 11  # as if eleven seconds had passed
        (found,) = await until(door.findings)
        await door.passes()
        assert "in_flight" not in found["evidence"]

    play(scenario, here, there)


def test_suspicion_wakes_the_hub_at_once(play):
    agent = FakeAgent(*healthy())

    async def scenario(door):
        assert await until(door.heartbeat)
        await asyncio.sleep(0.2)
        agent.ranks = frozen()
        agent.suspects, agent.version = [{"job_id": JOB, "rank": 2, "reason": "stopped"}], 1
        struck = time.monotonic()
        assert await until(door.findings)
        assert time.monotonic() - struck < 2.0

    play(scenario, agent, interval_seconds=30.0)


def test_suspicion_that_stands_does_not_spin_the_hub(play):
    agent = FakeAgent(*healthy())
    agent.suspects, agent.version = [{"job_id": JOB, "rank": 2, "reason": "overdue"}], 1

    async def scenario(door):
        await asyncio.sleep(1.0)
        assert len([path for path in agent.asked if "snapshot" in path]) < 10

    play(scenario, agent, alert_interval_seconds=0.25)


def test_finding_resolves_when_the_rank_goes_on_and_keeps_its_id(play):
    agent = FakeAgent(*frozen())

    async def scenario(door):
        (found,) = await until(door.findings)
        agent.ranks = healthy()

        async def resolved():
            return not await door.findings()

        assert await until(resolved)
        (after,) = await door.findings("")
        assert after["id"] == found["id"]
        assert 2.0 <= after["resolved"] - found["detected"] < 6.0
        assert await door.metric("zmon_finding{") == []

    play(scenario, agent)


def test_finding_resolves_when_the_boxes_of_its_job_are_pruned(play):
    agent = FakeAgent(*frozen())

    async def scenario(door):
        assert await until(door.findings)
        agent.ranks = ()

        async def resolved():
            return not await door.findings()

        assert await until(resolved)

    play(scenario, agent)


def test_findings_are_asked_for_by_job_and_by_whether_they_last(play):
    other = [replace(rank, job_id="other") for rank in frozen()]
    agent = FakeAgent(*frozen(), *other)

    async def scenario(door):
        async def both():
            return len(await door.findings()) == 2

        assert await until(both)
        assert [f["job_id"] for f in await door.findings("?job_id=other")] == ["other"]
        assert await door.findings("?job_id=none&active=1") == []
        times = [f["detected"] for f in await door.findings("")]
        assert times == sorted(times, reverse=True)

    play(scenario, agent)


def test_death_stays_one_finding_while_the_launcher_ends_the_others(play):
    agent = FakeAgent(killed(2), *(waiting(rank, 1.0) for rank in (0, 1, 3)))

    async def scenario(door):
        (first,) = await until(door.findings)
        agent.ranks = [killed(2, 5.0), *(killed(rank, 1.0, exit_status="signal SIGTERM") for rank in (0, 1, 3))]
        await door.passes(5)
        (second,) = await door.findings("")
        assert (second["id"], second["ranks"], second["onset"]) == (first["id"], [2], first["onset"])

    play(scenario, agent)


@pytest.mark.parametrize("moment", range(5))
def test_hub_can_be_ended_at_the_moment_it_is_woken(tmp_path, moment):
    """Before Python 3.12 `asyncio.wait_for` swallows a cancellation then, and the hub hangs at its end."""

    async def main():
        hub = Hub(HubConfig((), tmp_path))
        task = asyncio.create_task(hub.judge_for_ever(None))
        await asyncio.sleep(0.05)
        hub._wake.set()
        for _ in range(moment):
            await asyncio.sleep(0)
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=0.3)
        if not done:
            task.cancel()
            pytest.fail("the hub judges on")

    asyncio.run(main())


# -- restarts ----------------------------------------------------------------------------------------------


def test_restart_of_the_hub_keeps_the_finding_with_its_id(tmp_path):
    async def main():
        agent = FakeAgent(*frozen())
        async with agent.serve():
            async with hub_over(tmp_path, agent) as door:
                (before,) = await until(door.findings)
            async with hub_over(tmp_path, agent) as door:
                assert [f["id"] for f in await door.findings()] == [before["id"]]  # before its first pass
                await door.passes(5)
                (after,) = await door.findings("")
                assert (after["id"], after["onset"]) == (before["id"], before["onset"])
                assert len(await door.metric("zmon_finding{")) == 1

    asyncio.run(asyncio.wait_for(main(), 20))


def test_hub_is_quiet_while_its_only_agent_restarts(play):
    agent = FakeAgent(*healthy())

    async def scenario(door):
        await door.passes()
        agent.down = True
        await asyncio.sleep(0.7)
        agent.down = False
        await door.passes()
        assert await door.findings("") == []

    play(scenario, agent)


def halves():
    """Two hosts of two ranks, which have been training for a minute."""
    a = [rank_state(rank, activity_seconds=60.0) for rank in (0, 1)]
    b = [rank_state(rank, activity_seconds=60.0, host="node-b") for rank in (2, 3)]
    return FakeAgent(*a), FakeAgent(*b, host="node-b")


def test_hub_is_quiet_while_one_of_its_agents_restarts(play):
    here, there = halves()

    async def scenario(door):
        await door.passes()
        there.down = True
        await door.passes(5)
        there.down = False
        await door.passes()
        assert await door.findings("") == []

    play(scenario, here, there)


# -- blindness ---------------------------------------------------------------------------------------------


def test_blind_hub_stops_its_heartbeat_and_says_so(play):
    agent = FakeAgent(*healthy())

    async def scenario(door):
        await door.passes()
        agent.down = True

        async def blind():
            return (await door.get("/api/v1/jobs"))["blind"]

        assert await until(blind)
        await asyncio.sleep(0.2)
        before = await door.heartbeat()
        await asyncio.sleep(0.5)
        assert await door.heartbeat() == before
        health = await door.get("/healthz", 503)
        assert health["healthy"] is False
        assert "cannot reach" in health["agents"][0]["error"]
        agent.down = False
        await door.passes(1)
        assert not await blind()

    play(scenario, agent)


def test_blind_hub_resolves_nothing(play):
    agent = FakeAgent(*frozen())

    async def scenario(door):
        (found,) = await until(door.findings)
        agent.down = True
        await asyncio.sleep(2.5)
        assert [f["id"] for f in await door.findings()] == [found["id"]]

    play(scenario, agent)


def test_finding_about_a_host_that_is_out_of_sight_does_not_resolve(play):
    """Its agent died with it, perhaps: that the trouble cannot be seen any more is not that it is over."""
    here, there = halves()
    there.ranks = [stopped(2, host="node-b"), waiting(3, 1.0, host="node-b")]

    async def scenario(door):
        (found,) = await until(door.findings)
        there.down = True
        await asyncio.sleep(2.5)
        assert [f["id"] for f in await door.findings()] == [found["id"]]
        there.down, there.ranks = False, [rank_state(2, host="node-b"), rank_state(3, host="node-b")]

        async def resolved():
            return not await door.findings()

        assert await until(resolved)

    play(scenario, here, there)


def test_hub_that_never_reached_an_agent_is_not_healthy(tmp_path):
    async def main():
        agent = FakeAgent()
        async with agent.serve():
            agent.down = True
            async with hub_over(tmp_path, agent) as door:
                await asyncio.sleep(0.3)
                assert (await door.get("/healthz", 503))["healthy"] is False
                assert await door.heartbeat() == []

    asyncio.run(asyncio.wait_for(main(), 20))


def test_host_whose_agent_is_silent_is_a_finding(play):
    here, there = halves()

    async def scenario(door):
        await door.passes()
        there.down = True
        door.hub.links[1]._heard -= 11  # as if eleven seconds had passed
        (found,) = await until(door.findings)
        assert (found["cause"], found["hosts"]) == ("agent_unreachable", ["node-b"])
        assert "ranks 2, 3" in found["summary"]

    play(scenario, here, there)


def test_agent_that_hangs_holds_up_no_pass(play):
    here, there = halves()

    async def scenario(door):
        await door.passes()
        there.hangs = True

        async def unreachable():
            return not door.hub.links[1].reachable

        assert await until(unreachable)
        asked = len(there.asked)
        await door.passes(6)
        assert len([path for path in there.asked[asked:] if "snapshot" in path]) < 4
        there.hangs = False

        async def reachable():
            return door.hub.links[1].reachable

        assert await until(reachable)

    play(scenario, here, there)


def test_job_whose_only_agent_is_silent_is_a_finding_while_others_answer(play):
    """Another job's agent still answers, so the hub is not blind: the silence would look like the end of the job."""
    here, there = FakeAgent(*healthy()), FakeAgent(rank_state(0, job_id="other", world_size=1), host="node-b")

    async def scenario(door):
        await door.passes()
        here.down = True
        door.hub.links[0]._heard -= 11  # as if eleven seconds had passed
        assert await until(door.findings, 2.0)
        assert [(f["job_id"], f["cause"]) for f in await door.findings()] == [(JOB, "agent_unreachable")]

    play(scenario, here, there)


# -- the account of time -----------------------------------------------------------------------------------


def steps(first, last, ranks=range(4), uid="uid-{}"):
    """Records of 20 ms steps by the run uid of each rank."""
    return {JOB: {uid.format(rank): tuple(map(step_record, range(first, last + 1))) for rank in ranks}}


COUNT, SUM = "zmon_job_step_duration_seconds_count", "zmon_job_step_duration_seconds_sum"


def test_steps_of_all_ranks_are_counted_once_and_their_time_is_accounted_for(play):
    agent = FakeAgent(*healthy())

    async def scenario(door):
        await door.passes(1)
        agent.records = steps(1, 50)
        await door.passes()
        assert await door.metric(COUNT) == [50.0]
        assert await door.metric(SUM) == [pytest.approx(1.0)]
        assert sum(await door.metric("zmon_job_time_seconds_total")) == pytest.approx(1.0)
        (job,) = (await door.get("/api/v1/jobs"))["jobs"]
        assert job["step_seconds"] == pytest.approx(0.020)
        assert job["samples_per_second"] == pytest.approx(4 * 32 / 0.020)

    play(scenario, agent)


def test_hub_asks_only_for_what_is_new_since_it_came(play):
    agent = FakeAgent(*healthy())

    async def scenario(door):
        await door.passes(4)
        asked = [path.partition("?")[2] for path in agent.asked if "snapshot" in path]
        assert asked[:4] == ["about=8", "since=1&about=8", "since=2&about=8", "since=3&about=8"]

    play(scenario, agent)


def test_restarted_job_begins_a_new_account(play):
    agent = FakeAgent(*healthy())

    async def scenario(door):
        agent.records = steps(1, 50)
        await door.passes()
        agent.ranks = [rank_state(r, attempt=1, run_uid=f"again-{r}", start=1.9e9) for r in range(4)]
        agent.records = steps(41, 45, uid="again-{}")
        await door.passes()
        assert await door.metric(COUNT) == [5.0]

    play(scenario, agent)


def test_account_does_not_fall_while_the_host_of_rank_0_is_out_of_sight(play):
    """A counter that drops to nothing and comes back counts twice in every `rate`."""
    here, there = halves()

    async def scenario(door):
        await door.passes(1)
        here.records, there.records = steps(1, 50, (0, 1)), steps(1, 50, (2, 3))
        await door.passes()
        assert await door.metric(COUNT) == [50.0]
        here.down = True
        await door.passes()
        assert await door.metric(COUNT) in ([50.0], [])

    play(scenario, here, there)


def test_report_that_is_not_a_number_is_null(play):
    agent = FakeAgent(*(replace(rank, report={"loss": float("nan")}) for rank in healthy()))

    async def scenario(door):
        await door.passes(1)
        assert (await door.get("/api/v1/jobs"))["jobs"][0]["report"] == {"loss": None}

    play(scenario, agent)


# -- one word for a job ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("activities", "expected"),
    [
        (["train"] * 4, "train"),
        (["init", "init", "init", "train"], "init"),
        (["eval"] * 4, "eval"),
        (["done"] * 4, "done"),
        (["done", "done", "done", "train"], "train"),
    ],
)
def test_state_of_a_job_is_what_most_of_its_ranks_do(activities, expected):
    ranks = [rank_state(rank, activity=activity) for rank, activity in enumerate(activities)]
    assert job_state(snapshot(*ranks), []) == expected


def test_job_whose_ranks_are_gone_has_exited():
    assert job_state(snapshot(*map(killed, range(4))), []) == "exited"
