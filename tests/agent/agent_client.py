"""Requests to an agent under test, fake sources, and functions that fail."""

import asyncio
import inspect
import time

import msgspec

from zmon.agent.sources import Reading
from zmon.errors import SourceUnavailable
from zmon.schema.api.agent import AgentReport

TIMEOUT_SECONDS = 5.0  # long enough for a busy machine


async def get_json(client, path, status=200):
    """Return the JSON of an answer that has this HTTP status."""
    async with client.get(path) as answer:
        assert answer.status == status, await answer.text()
        return await answer.json()


async def get_metrics(client):
    """Return the page of /metrics."""
    async with client.get("/metrics") as answer:
        assert answer.status == 200
        return await answer.text()


async def get_snapshot(client, query=""):
    """Return the report of the agent."""
    async with client.get(f"/api/v1/snapshot{query}") as answer:
        assert answer.status == 200, await answer.text()
        return msgspec.json.decode(await answer.read(), type=AgentReport)


async def source_statuses(client):
    """Return the status of each source, by name."""
    async with client.get("/healthz") as answer:
        return {source["name"]: source for source in (await answer.json())["sources"]}


async def poll(probe, seconds=TIMEOUT_SECONDS, accept=bool):
    """Call a function, which may be a coroutine function, until its answer is accepted; return that, or None."""
    deadline = time.monotonic() + seconds
    while True:
        answer = probe()
        answer = await answer if inspect.isawaitable(answer) else answer
        if accept(answer):
            return answer
        if time.monotonic() > deadline:
            return None
        await asyncio.sleep(0.02)


async def shows(client, text, shown=True):
    """Wait until /metrics has this text, or no longer has it; return True then."""
    return await poll(lambda: get_metrics(client), accept=lambda page: (text in page) is shown) is not None


async def is_up(client, source, up=True):
    """Wait until a source has been read and is up, or is down; return True then."""
    return bool(
        await poll(lambda: source_statuses(client), accept=lambda by_name: by_name.get(source, {}).get("up") is up)
    )


class FakeSource:
    """A source that calls `read_value` at each read, and counts the reads."""

    def __init__(self, name, field, read_value):
        self.name, self.field, self.read_value = name, field, read_value
        self.interval_seconds = 0.01
        self.num_reads = 0

    def read(self):
        """Count the read and return its value."""
        self.num_reads += 1
        return Reading(self.read_value())

    async def is_read(self, times=2):
        """Wait until it was read more than `times` times from now on; return True then."""
        before = self.num_reads
        return bool(await poll(lambda: self.num_reads > before + times))


def raising(error):
    """Return a function that raises this error, whatever its arguments are."""

    def raise_error(*_, **__):
        raise error

    return raise_error


def failing_at(function, end, error):
    """Return a function like this one, which raises the error for a path with this end."""

    def call(path, *arguments):
        if str(path).endswith(end):
            raise error
        return function(path, *arguments)

    return call


def fail():
    """Raise, as the read of a source that is down."""
    raise RuntimeError("the driver is gone")


def absent():
    """Raise, as the read of a source that is absent from the host."""
    raise SourceUnavailable("cannot read GPUs", "no driver")
