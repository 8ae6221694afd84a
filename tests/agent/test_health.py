"""Tests of the status of each source in /healthz.

A source is up, down or absent independently of the others. The values of a source that is down are not exported.
"""

import asyncio
import threading
import time

import pytest

from tests.agent.agent_client import (
    FakeSource,
    absent,
    fail,
    get_json,
    get_metrics,
    get_snapshot,
    poll,
    source_statuses,
)
from zmon.agent import Agent, AgentConfig, poller
from zmon.agent.sources import Reading
from zmon.box.versions import CURRENT
from zmon.errors import UsageError
from zmon.schema.host import HostLoad

LOAD = HostLoad({"user": 1.0}, 1, 2, 0)


def test_damaged_box_is_reported_and_hides_no_other_rank(make_live_box, run_scenario):
    make_live_box(0)
    bad = make_live_box(1)
    for offset in range(CURRENT.live, CURRENT.live + 32, 8):
        bad.flip(offset + 3)

    async def scenario(client):
        assert [r.rank for r in (await get_snapshot(client)).ranks] == [0]
        health = await get_json(client, "/healthz")
        assert health["healthy"] is True
        (line,) = (await source_statuses(client))["boxes"]["dropped"]
        assert str(bad.path) in line

    run_scenario(scenario)


def test_sources_fail_or_are_absent_independently(run_scenario):
    mixed_sources = [
        FakeSource("nic", "nics", lambda: ()),
        FakeSource("host", "load", fail),
        FakeSource("gpu", "gpus", absent),
    ]

    async def scenario(client):
        async def read():
            return all(source.num_reads > (0 if source.name == "gpu" else 2) for source in mixed_sources)

        assert await poll(read)
        report = await get_snapshot(client)
        statuses = {source.name: source for source in report.sources}
        assert (statuses["nic"].up, statuses["nic"].error) == (True, None)
        assert (statuses["host"].up, statuses["host"].absent, statuses["host"].error) == (
            False,
            False,
            "the driver is gone",
        )
        assert statuses["host"].num_errors > 1
        assert (statuses["gpu"].up, statuses["gpu"].absent, statuses["gpu"].num_errors) == (False, True, 0)
        assert (report.sample.nics, report.sample.load, report.sample.gpus) == ((), None, None)
        page = await get_metrics(client)
        assert 'zmon_source_up{host="node-a",source="host"} 0.0' in page
        assert 'source="gpu"' not in page
        health = await get_json(client, "/healthz")
        assert health["healthy"] is True
        (down,) = health["down"]
        assert (down["source"], down["error"]) == ("host", "the driver is gone")
        assert time.time() - 20 < down["since"] < time.time()

    run_scenario(scenario, mixed_sources)


def test_failed_source_exports_no_old_value_and_recovers(run_scenario):
    broken = []
    source = FakeSource("host", "load", lambda: fail() if broken else LOAD)

    async def scenario(client):
        async def memory_is_exported(wanted):
            return ("zmon_host_memory_total_bytes" in await get_metrics(client)) is wanted

        assert await poll(lambda: memory_is_exported(True))
        broken.append(True)
        assert await poll(lambda: memory_is_exported(False))
        since = (await get_json(client, "/healthz"))["down"][0]["since"]
        reads = source.num_reads

        async def read_again():
            return source.num_reads > reads + 2

        assert await poll(read_again)
        assert (await get_json(client, "/healthz"))["down"][0]["since"] == since  # the time of the first failure
        broken.clear()
        assert await poll(lambda: memory_is_exported(True))
        assert (await get_json(client, "/healthz"))["down"] == []

    run_scenario(scenario, [source])


def test_hanging_source_is_down_and_not_read_again_until_the_call_ends(run_scenario):
    """A call that never returns occupies a thread; the agent must not start another thread at each read."""
    hangs, release = threading.Event(), threading.Event()

    def read():
        if hangs.is_set():
            release.wait()
        return LOAD

    hanging, healthy = FakeSource("host", "load", read), FakeSource("nic", "nics", lambda: ())

    async def scenario(client):
        async def is_up(wanted):
            statuses = await source_statuses(client)
            return "host" in statuses and statuses["host"]["up"] is wanted

        try:
            assert await poll(lambda: is_up(True))
            hangs.set()
            assert await poll(lambda: is_up(False))
            report = await get_snapshot(client)
            assert report.sample.load is None
            assert "zmon_host_memory" not in await get_metrics(client)
            (down,) = (await get_json(client, "/healthz"))["down"]
            assert (down["source"], down["error"]) == ("host", "it did not answer within 0.2 s")
            reads, before = hanging.num_reads, healthy.num_reads

            async def healthy_source_is_read():
                return healthy.num_reads > before + 5

            assert await poll(healthy_source_is_read)
            assert hanging.num_reads == reads
            assert (await source_statuses(client))["nic"]["up"]
            hangs.clear()
        finally:
            release.set()
        assert await poll(lambda: is_up(True))
        assert (await source_statuses(client))["host"]["num_errors"] == 1

    run_scenario(scenario, [hanging, healthy], source_timeout_seconds=0.2)


class Odd(Exception):
    """An exception whose `str()` raises."""

    def __str__(self):
        raise ValueError


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (SystemExit(3), "SystemExit 3"),
        (GeneratorExit(), "GeneratorExit"),
        (StopIteration(), "StopIteration"),
        (RuntimeError("two\nlines"), "two lines"),
        (Odd(), "Odd"),
        (MemoryError(), "MemoryError"),
    ],
)
def test_source_that_raises_any_exception_is_down_and_read_again(run_scenario, error, line):
    def raise_error():
        raise error

    source = FakeSource("host", "load", raise_error)

    async def scenario(client):
        async def read():
            return source.num_reads > 2

        assert await poll(read)
        (down,) = (await get_json(client, "/healthz"))["down"]
        assert (down["source"], down["error"]) == ("host", line)

    run_scenario(scenario, [source])


def test_absent_source_is_read_again_after_a_longer_pause(run_scenario, monkeypatch):
    """A driver may be loaded later, but each attempt to load its library costs more than most reads."""
    monkeypatch.setattr(poller, "ABSENT_SECONDS", 0.2)
    values = []
    source = FakeSource("gpu", "gpus", lambda: values[0] if values else absent())

    async def scenario(client):
        async def reads(number):
            return source.num_reads >= number

        assert await poll(lambda: reads(1))
        await asyncio.sleep(0.1)
        assert source.num_reads == 1
        values.append(())
        assert await poll(lambda: reads(4))
        assert (await source_statuses(client))["gpu"]["up"]

    run_scenario(scenario, [source])


def test_dropped_ports_are_counted_and_the_first_eight_are_listed(run_scenario):
    source = FakeSource("rdma", "rdma", None)
    source.read = lambda: Reading((), tuple(f"mlx5_{n}: cannot read state" for n in range(1000)))

    async def scenario(client):
        async def read():
            return "rdma" in await source_statuses(client)

        assert await poll(read)
        status = (await source_statuses(client))["rdma"]
        assert status["up"]
        assert status["num_dropped"] >= 1000
        assert len(status["dropped"]) == 8
        assert 'zmon_source_dropped_total{host="node-a",source="rdma"}' in await get_metrics(client)

    run_scenario(scenario, [source])


def test_source_switched_off_is_neither_read_nor_exported(run_scenario):
    gpu, nic = FakeSource("gpu", "gpus", fail), FakeSource("nic", "nics", lambda: ())

    async def scenario(client):
        async def others_are_read():
            return nic.num_reads > 2 and {"boxes", "nic", "stderr"} <= set(await source_statuses(client))

        assert await poll(others_are_read)
        assert "gpu" not in await source_statuses(client)
        assert 'source="gpu"' not in await get_metrics(client)
        assert gpu.num_reads == 0

    run_scenario(scenario, [gpu, nic], without=frozenset({"gpu"}))


def test_unknown_source_name_is_refused_with_the_valid_names(tmp_path):
    with pytest.raises(UsageError, match=r"no source is called gpus: the sources are .*nic.*steps") as caught:
        Agent(AgentConfig(tmp_path, "node-a", without=frozenset({"gpus", "nic"})))
    assert "\n" not in str(caught.value)


def test_agent_reports_its_own_cpu_time_and_memory(run_scenario):
    async def scenario(client):
        page = await get_metrics(client)
        values = {line.split("{")[0]: float(line.split()[1]) for line in page.splitlines() if line[0] != "#"}
        assert values["zmon_agent_cpu_seconds_total"] > 0.1
        assert values["zmon_agent_resident_bytes"] > 10e6

    run_scenario(scenario)
