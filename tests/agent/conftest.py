"""Fixtures for the agent of one node over real HTTP, and for boxes that another process locks."""

import asyncio
import time

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
    """Make a box on the real clock that another process locks, as a living rank does."""

    def make(rank=0, world_size=8, **identity):
        process = stand_in()
        identity = {"rank": rank, "world_size": world_size, "pid": process.pid, **identity}
        box = Box(tmp_path, RealClock(), identity, process)
        box.process = process
        return box

    return make


@pytest.fixture
def run_scenario(tmp_path):
    """Run a scenario against the HTTP endpoints of an agent."""

    def run(scenario, sources=(), **config):
        async def main():
            config.setdefault("scan_interval_seconds", 0.02)
            agent = Agent(AgentConfig(config.pop("box_dir", tmp_path), "node-a", **config), tuple(sources))
            async with TestClient(TestServer(agent.app())) as client:
                client.agent = agent
                await asyncio.wait_for(scenario(client), 20)

        asyncio.run(main())

    return run
