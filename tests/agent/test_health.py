"""The monitor on itself: each source up or down by itself, since when, and nothing stale in its place."""

import asyncio
import threading
import time

import pytest

from tests.agent.asking import FakeSource, absent, fail, get, metrics, snapshot, sources, until
from zmon.agent import Agent, AgentConfig, poller
from zmon.agent.sources import Reading
from zmon.box import layout
from zmon.errors import UsageError
from zmon.schema.host import HostLoad

LOAD = HostLoad({"user": 1.0}, 1, 2, 0)


def test_damaged_box_is_reported_and_hides_no_other(live, ask):
    live(0)
    bad = live(1)
    for at in range(layout.LIVE, layout.LIVE + 32, 8):
        bad.flip(at + 3)

    async def scenario(client):
        assert [r.rank for r in (await snapshot(client)).ranks] == [0]
        health = await get(client, "/healthz")
        assert health["healthy"] is True
        (line,) = (await sources(client))["boxes"]["dropped"]
        assert str(bad.path) in line

    ask(scenario)


def test_sources_fail_or_are_absent_each_by_itself(ask):
    three = [
        FakeSource("nic", "nics", lambda: ()),
        FakeSource("host", "load", fail),
        FakeSource("gpu", "gpus", absent),
    ]

    async def scenario(client):
        async def read():
            return all(source.num_reads > (0 if source.name == "gpu" else 2) for source in three)

        assert await until(read)
        report = await snapshot(client)
        found = {source.name: source for source in report.sources}
        assert (found["nic"].up, found["nic"].error) == (True, None)
        assert (found["host"].up, found["host"].absent, found["host"].error) == (False, False, "the driver is gone")
        assert found["host"].num_errors > 1
        assert (found["gpu"].up, found["gpu"].absent, found["gpu"].num_errors) == (False, True, 0)
        assert (report.sample.nics, report.sample.load, report.sample.gpus) == ((), None, None)
        page = await metrics(client)
        assert 'zmon_source_up{host="node-a",source="host"} 0.0' in page
        assert 'source="gpu"' not in page
        health = await get(client, "/healthz")
        assert health["healthy"] is True
        (down,) = health["down"]
        assert (down["source"], down["error"]) == ("host", "the driver is gone")
        assert time.time() - 20 < down["since"] < time.time()

    ask(scenario, three)


def test_source_that_fails_leaves_nothing_stale_and_comes_back(ask):
    broken = []
    source = FakeSource("host", "load", lambda: fail() if broken else LOAD)

    async def scenario(client):
        async def shown(wanted):
            return ("zmon_host_memory_total_bytes" in await metrics(client)) is wanted

        assert await until(lambda: shown(True))
        broken.append(True)
        assert await until(lambda: shown(False))
        since = (await get(client, "/healthz"))["down"][0]["since"]
        reads = source.num_reads

        async def read_again():
            return source.num_reads > reads + 2

        assert await until(read_again)
        assert (await get(client, "/healthz"))["down"][0]["since"] == since  # of the first failure, not the last
        broken.clear()
        assert await until(lambda: shown(True))
        assert (await get(client, "/healthz"))["down"] == []

    ask(scenario, [source])


def test_source_that_hangs_is_down_until_it_answers_in_time_and_starves_no_other(ask):
    """A driver or a network file system that never answers holds a thread: it must not take another at every turn."""
    hangs, release = threading.Event(), threading.Event()

    def read():
        if hangs.is_set():
            release.wait()
        return LOAD

    hanging, healthy = FakeSource("host", "load", read), FakeSource("nic", "nics", lambda: ())

    async def scenario(client):
        async def is_up(wanted):
            found = await sources(client)
            return "host" in found and found["host"]["up"] is wanted

        try:
            assert await until(lambda: is_up(True))
            hangs.set()
            assert await until(lambda: is_up(False))
            report = await snapshot(client)
            assert report.sample.load is None
            assert "zmon_host_memory" not in await metrics(client)
            (down,) = (await get(client, "/healthz"))["down"]
            assert (down["source"], down["error"]) == ("host", "it does not answer within 0.2 s")
            reads, before = hanging.num_reads, healthy.num_reads

            async def goes_on():
                return healthy.num_reads > before + 5

            assert await until(goes_on)
            assert hanging.num_reads == reads
            assert (await sources(client))["nic"]["up"]
            hangs.clear()
        finally:
            release.set()
        assert await until(lambda: is_up(True))
        assert (await sources(client))["host"]["num_errors"] == 1

    ask(scenario, [hanging, healthy], source_timeout_seconds=0.2)


class Odd(Exception):
    """It cannot even say what it is."""

    def __str__(self):
        raise ValueError


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (SystemExit(3), "SystemExit 3"),
        (GeneratorExit(), "GeneratorExit"),
        (StopIteration(), "StopIteration"),
        (RuntimeError("two\nlines"), "two lines"),
        (Odd(), "Odd"),
        (MemoryError(), "MemoryError"),
    ],
)
def test_whatever_a_source_raises_it_is_down_by_that_name_and_read_again(ask, error, said):
    def do():
        raise error

    source = FakeSource("host", "load", do)

    async def scenario(client):
        async def read():
            return source.num_reads > 2

        assert await until(read)
        (down,) = (await get(client, "/healthz"))["down"]
        assert (down["source"], down["error"]) == ("host", said)

    ask(scenario, [source])


def test_what_is_absent_is_looked_for_again_but_seldom(ask, monkeypatch):
    """A driver may be loaded later; loading its library every second in vain costs more than reading most sources."""
    monkeypatch.setattr(poller, "ABSENT_SECONDS", 0.2)
    found = []
    source = FakeSource("gpu", "gpus", lambda: found[0] if found else absent())

    async def scenario(client):
        async def reads(number):
            return source.num_reads >= number

        assert await until(lambda: reads(1))
        await asyncio.sleep(0.1)
        assert source.num_reads == 1
        found.append(())
        assert await until(lambda: reads(4))
        assert (await sources(client))["gpu"]["up"]

    ask(scenario, [source])


def test_what_a_source_leaves_out_is_counted_and_told_in_few_words(ask):
    source = FakeSource("rdma", "rdma", None)
    source.read = lambda: Reading((), tuple(f"mlx5_{n}: cannot read state" for n in range(1000)))

    async def scenario(client):
        async def read():
            return "rdma" in await sources(client)

        assert await until(read)
        found = (await sources(client))["rdma"]
        assert found["up"]
        assert found["num_dropped"] >= 1000
        assert len(found["dropped"]) == 8
        assert 'zmon_source_dropped_total{host="node-a",source="rdma"}' in await metrics(client)

    ask(scenario, [source])


def test_source_left_off_is_neither_read_nor_exported(ask):
    gpu, nic = FakeSource("gpu", "gpus", fail), FakeSource("nic", "nics", lambda: ())

    async def scenario(client):
        async def read():
            return nic.num_reads > 2

        assert await until(read)
        assert set(await sources(client)) == {"boxes", "nic", "stderr"}
        assert 'source="gpu"' not in await metrics(client)
        assert gpu.num_reads == 0

    ask(scenario, [gpu, nic], without=frozenset({"gpu"}))


def test_name_that_no_source_has_is_refused_with_the_names_there_are(tmp_path):
    with pytest.raises(UsageError, match=r"no source is called gpus: there are .*nic.*steps") as caught:
        Agent(AgentConfig(tmp_path, "node-a", without=frozenset({"gpus", "nic"})))
    assert "\n" not in str(caught.value)


def test_agent_says_what_it_takes_itself(ask):
    async def scenario(client):
        page = await metrics(client)
        values = {line.split("{")[0]: float(line.split()[1]) for line in page.splitlines() if line[0] != "#"}
        assert values["zmon_agent_cpu_seconds_total"] > 0.1
        assert values["zmon_agent_resident_bytes"] > 10e6

    ask(scenario)
