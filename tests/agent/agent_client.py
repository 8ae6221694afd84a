"""Requests to an agent under test, and fake sources."""

import asyncio
import time

import msgspec

from zmon.agent.sources import Reading
from zmon.errors import SourceUnavailable
from zmon.schema.api.agent import AgentReport

TIMEOUT_SECONDS = 5.0  # long enough for a busy machine


async def get_json(client, path, status=200):
    async with client.get(path) as answer:
        assert answer.status == status, await answer.text()
        return await answer.json()


async def get_metrics(client):
    """Return the page of /metrics."""
    async with client.get("/metrics") as answer:
        assert answer.status == 200
        return await answer.text()


async def get_snapshot(client, query=""):
    async with client.get(f"/api/v1/snapshot{query}") as answer:
        assert answer.status == 200, await answer.text()
        return msgspec.json.decode(await answer.read(), type=AgentReport)


async def source_statuses(client):
    """Return the status of each source, by name."""
    async with client.get("/healthz") as answer:
        return {source["name"]: source for source in (await answer.json())["sources"]}


async def poll(probe, seconds=TIMEOUT_SECONDS):
    """Call a coroutine function until its answer is true or the time is over; return the last answer."""
    deadline = time.monotonic() + seconds
    while not (answer := await probe()) and time.monotonic() < deadline:
        await asyncio.sleep(0.02)
    return answer


class FakeSource:
    """A source that calls `read_value` at each read, and counts the reads."""

    def __init__(self, name, field, read_value):
        self.name, self.field, self.read_value = name, field, read_value
        self.interval_seconds = 0.01
        self.num_reads = 0

    def read(self):
        self.num_reads += 1
        return Reading(self.read_value())


def fail():
    raise RuntimeError("the driver is gone")


def absent():
    raise SourceUnavailable("cannot read GPUs", "no driver")
