"""Tests of the status of each source in /healthz, and of what is exported of a source that is down or absent."""

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
    is_up,
    poll,
    raising,
    shows,
    source_statuses,
)
from zmon.agent import poller
from zmon.agent.sources import Reading
from zmon.schema.host import HostLoad

LOAD = HostLoad({"user": 1.0}, 1, 2, 0)
MEMORY = "zmon_host_memory_total_bytes"


async def only_down(client):
    """Return the only source that is down."""
    (down,) = (await get_json(client, "/healthz"))["down"]
    return down


async def test_damaged_box_is_reported_and_hides_no_other_rank(make_live_box, serve):
    make_live_box(0)
    damaged = make_live_box(1)
    damaged.path.write_bytes(b"no box")
    async with serve() as client:
        assert [state.rank for state in (await get_snapshot(client)).ranks] == [0]
        assert (await get_json(client, "/healthz"))["healthy"] is True
        (line,) = (await source_statuses(client))["boxes"]["dropped"]
        assert str(damaged.path) in line


async def test_sources_fail_or_are_absent_independently(serve):
    nic, host = FakeSource("nic", "nics", lambda: ()), FakeSource("host", "load", fail)
    async with serve(nic, host, FakeSource("gpu", "gpus", absent)) as client:
        assert await nic.is_read()
        assert await host.is_read()
        assert await poll(lambda: source_statuses(client), accept=lambda by_name: "gpu" in by_name)
        report = await get_snapshot(client)
        states = {source.name: (source.up, source.absent, source.num_errors > 1) for source in report.sources}
        assert states["nic"] == (True, False, False)
        assert states["host"] == (False, False, True)
        assert states["gpu"] == (False, True, False)
        assert (report.sample.nics, report.sample.load, report.sample.gpus) == ((), None, None)
        page = await get_metrics(client)
        assert 'zmon_source_up{host="node-a",source="host"} 0.0' in page
        assert 'source="gpu"' not in page
        assert (await get_json(client, "/healthz"))["healthy"] is True
        down = await only_down(client)
        assert (down["source"], down["error"]) == ("host", "the driver is gone")
        assert time.time() - 20 < down["since"] < time.time()


async def test_failed_source_exports_no_old_value_and_recovers(serve):
    broken = []
    source = FakeSource("host", "load", lambda: fail() if broken else LOAD)
    async with serve(source) as client:
        assert await shows(client, MEMORY)
        broken.append(True)
        assert await shows(client, MEMORY, False)
        since = (await only_down(client))["since"]
        assert await source.is_read()
        assert (await only_down(client))["since"] == since  # the time of the first failure
        broken.clear()
        assert await shows(client, MEMORY)
        assert (await get_json(client, "/healthz"))["down"] == []


async def test_hanging_source_is_down_and_not_read_again_until_the_call_ends(serve):
    """A call that never returns occupies a thread; the agent must not start another thread at each read."""
    hangs, release = threading.Event(), threading.Event()

    def read():
        if hangs.is_set():
            release.wait()
        return LOAD

    hanging, healthy = FakeSource("host", "load", read), FakeSource("nic", "nics", lambda: ())
    async with serve(hanging, healthy, source_timeout_seconds=0.2) as client:
        try:
            assert await is_up(client, "host")
            hangs.set()
            assert await is_up(client, "host", False)
            assert (await get_snapshot(client)).sample.load is None
            assert MEMORY not in await get_metrics(client)
            down = await only_down(client)
            assert (down["source"], down["error"]) == ("host", "it did not answer within 0.2 s")
            reads = hanging.num_reads
            assert await healthy.is_read(5)
            assert hanging.num_reads == reads
            assert (await source_statuses(client))["nic"]["up"]
            hangs.clear()
        finally:
            release.set()
        assert await is_up(client, "host")
        assert (await source_statuses(client))["host"]["num_errors"] == 1


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
async def test_source_that_raises_any_exception_is_down_and_read_again(serve, error, line):
    source = FakeSource("host", "load", raising(error))
    async with serve(source) as client:
        assert await source.is_read()
        down = await only_down(client)
        assert (down["source"], down["error"]) == ("host", line)


async def test_absent_source_is_read_again_after_a_longer_pause(serve, monkeypatch):
    """A driver may be loaded later, but each attempt to load its library costs more than most reads."""
    monkeypatch.setattr(poller, "ABSENT_SECONDS", 0.2)
    values = []
    source = FakeSource("gpu", "gpus", lambda: values[0] if values else absent())
    async with serve(source) as client:
        assert await poll(lambda: source.num_reads)
        await asyncio.sleep(0.1)
        assert source.num_reads == 1
        values.append(())
        assert await source.is_read(2)
        assert (await source_statuses(client))["gpu"]["up"]


async def test_dropped_ports_are_counted_and_the_first_eight_are_listed(serve):
    source = FakeSource("rdma", "rdma", None)
    source.read = lambda: Reading((), tuple(f"mlx5_{n}: cannot read state" for n in range(1000)))
    async with serve(source) as client:
        assert await is_up(client, "rdma")
        status = (await source_statuses(client))["rdma"]
        assert status["num_dropped"] >= 1000
        assert len(status["dropped"]) == 8
        assert 'zmon_source_dropped_total{host="node-a",source="rdma"}' in await get_metrics(client)


async def test_source_switched_off_is_neither_read_nor_exported(serve):
    gpu, nic = FakeSource("gpu", "gpus", fail), FakeSource("nic", "nics", lambda: ())
    async with serve(gpu, nic, without=frozenset({"gpu"})) as client:
        others = {"boxes", "nic", "stderr"}
        assert await poll(lambda: source_statuses(client), accept=lambda by_name: others <= by_name.keys())
        assert await nic.is_read()
        assert "gpu" not in await source_statuses(client)
        assert 'source="gpu"' not in await get_metrics(client)
        assert gpu.num_reads == 0


@pytest.mark.parametrize(("flags", "env"), [(("--without", "gpu,nics"), {}), ((), {"ZMON_WITHOUT": "nics"})])
def test_unknown_source_name_is_refused_by_the_command_line(command, monkeypatch, flags, env):
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    code, out, err = command("agent", *flags)
    assert (code, out) == (2, "")
    (line,) = err.splitlines()
    assert line.startswith("zmon: no source is called nics: the sources are ")
    assert all(name in line for name in ("gpu", "nic", "rdma", "tcp", "host", "kernel", "steps"))


async def test_agent_reports_its_own_cpu_time_and_memory(serve):
    async with serve() as client:
        page = await get_metrics(client)
        values = {line.split("{")[0]: float(line.split()[1]) for line in page.splitlines() if line[0] != "#"}
        assert values["zmon_agent_cpu_seconds_total"] > 0.1
        assert values["zmon_agent_resident_bytes"] > 10e6
