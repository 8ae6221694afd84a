"""Fixtures for the agent of one node over real HTTP, for boxes that another process locks, and for processes."""

import subprocess
import sys
import time
from contextlib import asynccontextmanager, suppress

import psutil
import pytest
from aiohttp.test_utils import TestClient, TestServer

from tests.boxes import Box, Clock
from zmon.agent import Agent, AgentConfig


class RealClock(Clock):
    """The host's monotonic clock, shifted by `ns`."""

    def __init__(self):
        super().__init__(0)

    def __call__(self):
        return time.monotonic_ns() + self.ns


@pytest.fixture
def make_live_box(tmp_path, stand_in):
    """Return a function that makes a box on the real clock; another process locks it, as a living rank does.

    The rank wrote everything `seconds_ago`.
    """

    def make(rank=0, world_size=8, seconds_ago=0, **identity):
        process = stand_in()
        identity = {"rank": rank, "world_size": world_size, "pid": process.pid, **identity}
        box = Box(tmp_path, RealClock(), identity, process)
        box.clock.ns = round(-1e9 * seconds_ago)
        return box

    return make


@pytest.fixture
def serve(tmp_path):
    """Return a function that serves an agent with these sources over HTTP and yields a client of it."""

    @asynccontextmanager
    async def run(*sources, box_dir=tmp_path, **config):
        agent = Agent(AgentConfig(box_dir, "node-a", **{"scan_interval_seconds": 0.02, **config}), sources)
        async with TestClient(TestServer(agent.app())) as client:
            client.agent, client.url = agent, str(client.make_url("")).rstrip("/")
            yield client

    return run


@pytest.fixture
def sleeper():
    """Yield a child process that sleeps until it is killed."""
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


@pytest.fixture
def start_python():
    """Return a function that starts Python code and waits for its first line; it is killed with its children."""
    processes = []

    def start(code, *arguments, **options):
        command = [sys.executable, "-S", "-E", "-c", code, *arguments]
        processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options))
        assert processes[-1].stdout.readline()
        return processes[-1]

    yield start
    for process in processes:
        with process:  # waits for its end, and closes its pipes
            with suppress(psutil.NoSuchProcess):
                for child in psutil.Process(process.pid).children(recursive=True):
                    child.kill()
            process.kill()
