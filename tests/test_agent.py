"""One node's agent over real HTTP, with boxes that other processes hold or write."""

import asyncio
import os
import signal
import subprocess
import threading
import time

import aiohttp
import msgspec
import pytest
from aiohttp.test_utils import TestClient, TestServer

from tests.build import IDENTITY, JOB, Box, Clock
from zmon.agent import Agent, AgentConfig
from zmon.box import layout
from zmon.errors import SourceUnavailable
from zmon.records import AgentReport

UID = IDENTITY["uid"].hex()
PATIENCE = 5.0  # seconds; a busy machine is not a failure


class RealClock(Clock):
    """The host's, as the agent reads it, plus what the test lets pass in advance."""

    def __init__(self):
        super().__init__(0)

    def __call__(self):
        return time.monotonic_ns() + self.ns


@pytest.fixture
def live(tmp_path, stand_in):
    """Make a box on the real clock, held by another process."""

    def make(rank=0, world_size=8, **identity):
        process = stand_in()
        box = Box(tmp_path, RealClock(), {"rank": rank, "world_size": world_size, "pid": process.pid, **identity})
        process.hold(box.path)
        box.process = process
        return box

    return make


@pytest.fixture
def ask(tmp_path):
    """Run a scenario against an agent's HTTP door."""

    def run(scenario, sources=(), **config):
        async def main():
            agent = Agent(AgentConfig(tmp_path, "node-a", **{"look_interval_seconds": 0.02, **config}), tuple(sources))
            async with TestClient(TestServer(agent.app())) as client:
                await asyncio.wait_for(scenario(client), 20)

        asyncio.run(main())

    return run


async def get(client, path, status=200):
    async with client.get(path) as answer:
        assert answer.status == status, await answer.text()
        return await answer.json()


async def snapshot(client, query=""):
    async with client.get(f"/api/v1/snapshot{query}") as answer:
        return msgspec.json.decode(await answer.read(), type=AgentReport)


async def until(probe, seconds=PATIENCE):
    """The first true answer of a coroutine function."""
    deadline = time.monotonic() + seconds
    while not (answer := await probe()) and time.monotonic() < deadline:
        await asyncio.sleep(0.02)
    return answer


# -- /metrics ----------------------------------------------------------------------------------------------


def test_metrics_of_a_real_rank_are_clean_and_nan_stays_nan(start_rank, tmp_path, ask):
    rank = start_rank(
        """
        import time, zmon
        from zmon import probe
        probe.attach_box()
        for _ in range(10):
            with zmon.step():
                zmon.phase("forward")
                zmon.work(samples=32)
        zmon.report(loss=float("nan"), auc=0.7)
        print("trained", flush=True)
        time.sleep(60)
        """,
        ZMON_BOX_DIR=str(tmp_path),
    )
    rank.says("trained")

    async def scenario(client):
        async with client.get("/metrics") as answer:
            assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
            page = await answer.text()
        checked = subprocess.run(
            ["promtool", "check", "metrics"], input=page, capture_output=True, text=True, check=False
        )
        assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
        me = 'host="node-a",job_id="job",rank="0"'
        lines = {line.replace("{key=", "{").split()[0]: line.split()[1] for line in page.splitlines() if line[0] != "#"}
        assert lines[f"zmon_steps_total{{{me}}}"] == "10.0"
        assert lines[f"zmon_samples_total{{{me}}}"] == "320.0"
        assert 'key="loss"' in page
        assert [line.split()[1] for line in page.splitlines() if 'key="loss"' in line] == ["NaN"]
        assert [line.split()[1] for line in page.splitlines() if 'key="auc"' in line] == ["0.7"]
        (seen,) = (await snapshot(client)).ranks
        assert seen.report == {"loss": None, "auc": 0.7}  # JSON knows no NaN
        assert seen.pid == rank.pid

    ask(scenario)


def test_metrics_are_of_the_newest_attempt_only(live, ask):
    live(0, attempt=0, start_unix=1_000 * 10**9).steps(3)
    live(0, attempt=1, start_unix=2_000 * 10**9).steps(5)

    async def scenario(client):
        page = await (await client.get("/metrics")).text()
        assert [line.split()[1] for line in page.splitlines() if line.startswith("zmon_steps_total")] == ["5.0"]

    ask(scenario)


def test_metrics_of_a_dead_rank_end_after_half_a_minute(live, ask):
    fresh, old = live(0), live(1)
    old.clock.ns = -40_000_000_000
    for phase in (0, 1):  # both slots: a rank's clock does not go back
        old.timeline.phase(phase)
    for box in (fresh, old):
        box.process.end()

    async def scenario(client):
        page = await (await client.get("/metrics")).text()
        assert 'rank="0"' in page
        assert 'rank="1"' not in page
        assert {r.rank for r in (await snapshot(client)).ranks} == {0, 1}  # the hub still wants to know

    ask(scenario)


# -- snapshot ----------------------------------------------------------------------------------------------


def test_snapshot_has_records_only_for_who_asks_and_each_once(live, ask):
    box = live()
    box.clock.ns = -10_000_000_000  # these steps ended some seconds ago
    box.steps(10)

    async def scenario(client):
        assert (await snapshot(client)).records == {}
        first = await snapshot(client, "?since=0")
        assert [r.step for r in first.records[JOB][UID]] == list(range(1, 11))
        second = await snapshot(client, f"?since={first.cursor}")
        assert second.records[JOB][UID] == ()
        box.steps(3)
        box.clock.ns = 0
        box.timeline.begin_step(None)
        box.timeline.end_step()
        numbers = []

        async def all_there():
            nonlocal second
            second = await snapshot(client, f"?since={second.cursor}")
            numbers.extend(r.step for r in second.records[JOB][UID])
            return 14 in numbers

        assert await until(all_there)
        # steps 11 to 13 are on the clock of the past: they ended before the cursor, as no real step does
        assert numbers == [14]

    ask(scenario)


def test_snapshot_is_of_one_job_where_that_is_asked_for(live, ask):
    live()
    live(job_id=b"other")

    async def scenario(client):
        assert {r.job_id for r in (await snapshot(client)).ranks} == {JOB, "other"}
        assert {r.job_id for r in (await snapshot(client, "?job_id=other")).ranks} == {"other"}
        assert (await snapshot(client, "?job_id=none")).ranks == ()

    ask(scenario)


@pytest.mark.parametrize("first", ["old", "new"])
def test_records_of_a_restarted_rank_are_those_of_its_newest_start(live, ask, tmp_path_factory, first):
    """An agent that is started after the restart finds the boxes of both, in any order."""
    made, elsewhere = {}, tmp_path_factory.mktemp("elsewhere")
    for name in (first, "new" if first == "old" else "old"):
        start = {"attempt": 0, "start_unix": 10**18} if name == "old" else {"attempt": 1, "start_unix": 2 * 10**18}
        made[name] = live(**start, uid=name.encode() * 5)
        made[name].clock.ns = -10_000_000_000
        made[name].steps(4 if name == "old" else 7)
        made[name].path.parent.rename(elsewhere / name)
    made["old"].process.end()

    async def scenario(client):
        for number, name in enumerate(made):  # one after the other: so the agent finds them in this order
            (elsewhere / name).rename(made[name].path.parent)

            async def appeared(number=number):
                return len((await snapshot(client)).ranks) > number

            assert await until(appeared)
        report = await snapshot(client, "?since=0")
        assert {len(report.records[JOB][state.run_uid]) for state in report.ranks if state.attempt == 1} == {7}

    ask(scenario)


@pytest.mark.parametrize(
    "path",
    ["/api/v1/snapshot?since=x", "/api/v1/snapshot?since=nan", "/api/v1/snapshot?since=inf", "/api/v1/suspects?wait=x",
     "/api/v1/suspects?wait=nan"],
)  # fmt: skip
def test_number_that_is_none_is_a_bad_request_in_one_line(ask, path):
    async def scenario(client):
        async with client.get(path, timeout=aiohttp.ClientTimeout(total=2)) as answer:
            assert answer.status == 400
            assert len((await answer.text()).splitlines()) == 1

    ask(scenario)


# -- suspects ----------------------------------------------------------------------------------------------


def test_long_poll_returns_at_once_on_a_suspicion(live, ask):
    box = live()
    box.steps(3)

    async def scenario(client):
        quiet = await get(client, "/api/v1/suspects")
        assert quiet["suspects"] == []
        waiting = asyncio.create_task(get(client, f"/api/v1/suspects?wait=30&since={quiet['version']}"))
        await asyncio.sleep(0.2)
        assert not waiting.done()
        struck = time.monotonic()
        os.kill(box.process.pid, signal.SIGSTOP)
        answer = await waiting
        assert time.monotonic() - struck < 2.0
        assert answer["suspects"] == [{"job_id": JOB, "rank": 0, "reason": "stopped"}]
        assert answer["version"] != quiet["version"]

    ask(scenario)


def test_long_poll_without_a_version_returns_a_suspicion_that_stands(live, ask):
    box = live()
    os.kill(box.process.pid, signal.SIGSTOP)

    async def scenario(client):
        async def suspected():
            return (await get(client, "/api/v1/suspects?wait=0"))["suspects"]

        assert await until(suspected)
        begin = time.monotonic()
        assert (await get(client, "/api/v1/suspects?wait=30"))["suspects"]
        assert time.monotonic() - begin < 2.0

    ask(scenario)


def test_long_poll_returns_at_its_timeout_when_all_is_well(live, ask):
    live().steps(3)

    async def scenario(client):
        begin = time.monotonic()
        answer = await get(client, "/api/v1/suspects?wait=0.4")
        assert 0.35 < time.monotonic() - begin < 3.0
        assert answer["suspects"] == []

    ask(scenario)


def test_long_poll_waits_no_longer_than_the_agent_allows(ask):
    async def scenario(client):
        begin = time.monotonic()
        await get(client, "/api/v1/suspects?wait=3600")
        assert time.monotonic() - begin < 3.0

    ask(scenario, max_wait_seconds=0.2)


def test_long_poll_tells_a_suspicion_that_is_lifted(live, ask):
    box = live()
    box.steps(3)
    os.kill(box.process.pid, signal.SIGSTOP)

    async def scenario(client):
        async def suspected():
            answer = await get(client, "/api/v1/suspects?wait=0")
            return answer if answer["suspects"] else None

        seen = await until(suspected)
        os.kill(box.process.pid, signal.SIGCONT)
        lifted = await get(client, f"/api/v1/suspects?wait=10&since={seen['version']}")
        assert lifted["suspects"] == []

    ask(scenario)


# -- health ------------------------------------------------------------------------------------------------


def test_damaged_box_is_reported_and_hides_no_other(live, ask):
    live(0)
    bad = live(1)
    for at in range(layout.LIVE, layout.LIVE + 32, 8):
        bad.flip(at + 3)

    async def scenario(client):
        health = await get(client, "/healthz")
        assert health["healthy"] is True
        (line,) = health["damaged_boxes"]
        assert str(bad.path) in line
        assert [r.rank for r in (await snapshot(client)).ranks] == [0]

    ask(scenario)


class FakeSource:
    """A source that does what it is told."""

    def __init__(self, name, field, do):
        self.name, self.field, self.do = name, field, do
        self.interval_seconds = 0.01
        self.num_reads = 0

    def read(self):
        self.num_reads += 1
        return self.do()


def fail():
    raise RuntimeError("the driver is gone")


def absent():
    raise SourceUnavailable("cannot read GPUs", "no driver")


def test_sources_fail_or_are_absent_each_by_itself(ask):
    sources = [
        FakeSource("nic", "nics", lambda: ()),
        FakeSource("host", "load", fail),
        FakeSource("gpu", "gpus", absent),
    ]

    async def scenario(client):
        async def read():
            return all(source.num_reads > 2 for source in sources)

        assert await until(read)
        report = await snapshot(client)
        found = {source.name: source for source in report.sources}
        assert (found["nic"].up, found["nic"].error) == (True, None)
        assert (found["host"].up, found["host"].absent, found["host"].error) == (False, False, "the driver is gone")
        assert found["host"].num_errors > 1
        assert (found["gpu"].up, found["gpu"].absent, found["gpu"].num_errors) == (False, True, 0)
        assert (report.sample.nics, report.sample.load, report.sample.gpus) == ((), None, None)
        page = await (await client.get("/metrics")).text()
        assert 'zmon_source_up{host="node-a",source="host"} 0.0' in page
        assert 'source="gpu"' not in page
        assert (await get(client, "/healthz"))["healthy"] is True

    ask(scenario, sources)


def test_source_that_fails_for_a_while_comes_back(ask):
    broken = [True]
    source = FakeSource("host", "load", lambda: fail() if broken[0] else None)

    async def scenario(client):
        async def is_up(wanted):
            found = {s.name: s for s in (await snapshot(client)).sources}
            return "host" in found and found["host"].up is wanted

        assert await until(lambda: is_up(False))
        broken[0] = False
        assert await until(lambda: is_up(True))

    ask(scenario, [source])


def test_source_that_hangs_is_down_and_starves_no_other(ask):
    """A driver or a network file system that never answers holds a thread: it must not take another at every turn."""
    release = threading.Event()
    hanging, healthy = FakeSource("gpu", "gpus", release.wait), FakeSource("nic", "nics", lambda: ())

    async def scenario(client):
        try:
            await asyncio.sleep(0.6)  # time for more turns than the executor has threads
            before = healthy.num_reads
            found = {s.name: s for s in (await snapshot(client)).sources}
            assert not found["gpu"].up
            await asyncio.sleep(0.3)
            assert healthy.num_reads > before
            assert {s.name: s for s in (await snapshot(client)).sources}["nic"].up
        finally:
            release.set()

    ask(scenario, [hanging, healthy], source_timeout_seconds=0.02)


@pytest.mark.parametrize("moment", range(8))
def test_source_can_be_ended_at_the_moment_its_reading_is_done(tmp_path, moment):
    """Before Python 3.12 `asyncio.wait_for` swallows a cancellation then, and the agent hangs at its end."""

    async def main():
        loop, read = asyncio.get_running_loop(), asyncio.Event()
        source = FakeSource("nic", "nics", lambda: loop.call_soon_threadsafe(read.set))
        task = asyncio.create_task(Agent(AgentConfig(tmp_path, "node-a"), (source,)).watch_source(source))
        await read.wait()
        for _ in range(moment):
            await asyncio.sleep(0)
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=0.3)
        if not done:
            task.cancel()
            pytest.fail("the source is watched on")

    asyncio.run(main())


# -- evidence ----------------------------------------------------------------------------------------------


def test_evidence_of_a_real_rank_has_its_stack(start_rank, tmp_path, ask):
    rank = start_rank(
        """
        import time, zmon
        def guilty_line():
            time.sleep(60)
        assert zmon.attach()
        print("attached", flush=True)
        guilty_line()
        """,
        ZMON_BOX_DIR=str(tmp_path),
    )
    rank.says("attached")

    async def scenario(client):
        found = await get(client, "/api/v1/evidence/job/0")
        assert (found["job_id"], found["rank"], found["pid"]) == ("job", 0, rank.pid)
        assert "guilty_line" in found["stack"]
        assert found["stack_error"] is None

    ask(scenario)


def test_evidence_of_a_real_rank_has_what_is_in_flight_and_stacks_only_on_demand(start_rank, tmp_path, ask):
    rank = start_rank(
        """
        import time, zmon
        assert zmon.attach()
        import torch
        import torch.distributed as dist
        dist.init_process_group("gloo", init_method="file://" + __file__ + ".store", rank=0, world_size=1)
        dist.all_reduce(torch.ones(3))
        print("reduced", flush=True)
        time.sleep(60)
        """,
        ZMON_BOX_DIR=str(tmp_path),
    )
    rank.says("reduced")

    async def scenario(client):
        async def retired():
            found = await get(client, "/api/v1/evidence/job/0?stacks=0")
            return found if found["flight"]["last"] else None  # the thread that reduces retires it a moment later

        found = await until(retired)
        assert found["flight"] == {"pending": [], "num_pending": 0, "last": {"gloo:0": 1}}
        assert (found["flight_error"], found["stack"]) == (None, None)

    ask(scenario)


def test_evidence_of_a_rank_without_a_server_says_so(live, ask):
    live()

    async def scenario(client):
        found = await get(client, "/api/v1/evidence/job/0")
        assert found["stack"] is None
        assert "no worker server" in found["stack_error"]
        assert (found["flight"], found["flight_error"]) == (None, found["stack_error"])

    ask(scenario)


def test_evidence_of_nobody_is_not_found_in_one_line(live, ask):
    live()

    async def scenario(client):
        for path in ("/api/v1/evidence/job/7", "/api/v1/evidence/other/0"):
            found = await get(client, path, 404)
            assert "zmon status" in found["error"]

    ask(scenario)


# -- cost --------------------------------------------------------------------------------------------------


def test_asking_for_what_is_new_does_not_read_what_is_old(live, ask, monkeypatch):
    """The hub asks up to four times a second; reading a thousand records of every rank each time takes a core."""
    box = live()
    box.clock.ns = -60_000_000_000
    box.steps(1500)
    reads = []
    pread = os.pread

    def counting(*arguments):
        reads.append(arguments)
        return pread(*arguments)

    async def scenario(client):
        first = await snapshot(client, "?since=0")
        assert len(first.records[JOB][UID]) == 1024
        monkeypatch.setattr(os, "pread", counting)
        await snapshot(client, f"?since={first.cursor}")
        assert len(reads) < 100

    ask(scenario, look_interval_seconds=10.0)
