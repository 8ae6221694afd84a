"""Tests that the agent gives GPUs and ranks to the source that tells who leaves GPUs idle."""

import asyncio

import pytest
from aiohttp.test_utils import TestClient, TestServer

from tests.agent.agent_client import FakeSource, absent, is_up, poll
from zmon.agent import Agent, AgentConfig
from zmon.errors import SourceUnavailable
from zmon.schema.host import GpuSample

GPU = GpuSample("0", "GPU-0", utilization_ratio=0.5, minor=0)


@pytest.fixture
def make_agent(monkeypatch, tmp_path):
    """Return an agent whose only hardware is read by this function, and what it gives to the other sources."""

    def make(read, **config):
        given = {}

        def sources(ranks, **more):
            given.update(more)
            return (FakeSource("gpu", "gpus", read),)

        monkeypatch.setattr("zmon.agent.all_sources", sources)
        return Agent(AgentConfig(tmp_path, "node-a", scan_interval_seconds=0.02, **config)), given

    return make


async def test_source_gets_the_last_samples_of_gpus_and_each_rank_with_its_pid(make_agent, make_live_box):
    box = make_live_box(rank=3)
    agent, given = make_agent(lambda: (GPU,))
    async with TestClient(TestServer(agent.app())) as client:
        assert await is_up(client, "gpu")
        assert given["gpus"]() == (GPU,)
        assert await poll(lambda: asyncio.to_thread(given["states"]))
        ((state, pid),) = await asyncio.to_thread(given["states"])
        assert (state.rank, state.alive, pid) == (3, True, box.process.pid)


@pytest.mark.parametrize("without", [set(), {"gpu"}], ids=["no GPU", "switched off"])
async def test_source_is_absent_if_no_gpu_is_read(make_agent, without):
    agent, given = make_agent(absent, without=frozenset(without))
    async with TestClient(TestServer(agent.app())) as client:
        assert await is_up(client, "boxes")
        with pytest.raises(SourceUnavailable, match="cannot tell who holds GPUs: no GPU is read on this host"):
            given["gpus"]()
