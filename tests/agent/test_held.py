"""Tests that the agent gives GPUs, ranks and pods to the source that tells who leaves GPUs idle."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from aiohttp.test_utils import TestClient, TestServer

from tests.agent.agent_client import FakeSource, absent, is_up, poll, source_statuses
from tests.web.kubernetes.fake_api import ALL_PODS, FakeApi, pod
from zmon.agent import Agent, AgentConfig, poller
from zmon.agent.sources.pods import PodSource
from zmon.errors import SourceUnavailable
from zmon.schema.host import GpuSample
from zmon.web.kubernetes import requests

GPU = GpuSample("0", "GPU-0", utilization_ratio=0.5, minor=0)


@pytest.fixture
def make_agent(monkeypatch, tmp_path):
    """Return a function that makes an agent, whose source `gpu` is read by `read`, and the arguments of its sources."""

    def make(read, **config):
        arguments = {}

        def sources(ranks, **options):
            arguments.update(options)
            return (FakeSource("gpu", "gpus", read),)

        monkeypatch.setattr("zmon.agent.all_sources", sources)
        return Agent(AgentConfig(tmp_path, "node-a", scan_interval_seconds=0.02, **config)), arguments

    return make


async def test_source_gets_the_last_samples_of_gpus_and_each_rank_with_its_pid(make_agent, make_live_box):
    box = make_live_box(rank=3)
    agent, arguments = make_agent(lambda: (GPU,))
    async with TestClient(TestServer(agent.app())) as client:
        assert await is_up(client, "gpu")
        assert arguments["gpus"]() == (GPU,)
        assert await poll(lambda: asyncio.to_thread(arguments["states"]))
        ((state, pid),) = await asyncio.to_thread(arguments["states"])
        assert (state.rank, state.alive, pid) == (3, True, box.holder.pid)


@pytest.mark.parametrize("without", [set(), {"gpu"}], ids=["no GPU", "switched off"])
async def test_source_is_absent_if_no_gpu_is_read(make_agent, without):
    agent, arguments = make_agent(absent, without=frozenset(without))
    async with TestClient(TestServer(agent.app())) as client:
        assert await is_up(client, "boxes")
        with pytest.raises(SourceUnavailable, match="cannot tell who holds GPUs: no GPU is read on this host"):
            arguments["gpus"]()


@pytest.fixture
def serve_with_pods(make_agent, monkeypatch, tmp_path):
    """Return a function that serves an agent of node-1, and an API server with these changes, which has a pod there."""
    monkeypatch.setattr(poller, "ABSENT_SECONDS", 0.05)  # the GPUs may be read after the pods
    (tmp_path / "token").write_text("token-1")

    @asynccontextmanager
    async def serve(read=lambda: (GPU,), **changes):
        api = FakeApi()
        api.objects = {ALL_PODS: {"a": pod("a", node="node-1", limits=[{"nvidia.com/gpu": "1"}])}}
        for name, value in changes.items():
            setattr(api, name, value)
        async with api.serve():
            agent, arguments = make_agent(read, pods=PodSource(api.account(tmp_path / "token"), "node-1"))
            async with TestClient(TestServer(agent.app())) as client:
                yield api, client, arguments["pods"]

    return serve


async def test_source_gets_the_pods_of_the_node(serve_with_pods):
    async with serve_with_pods() as (_, client, pods):
        assert await is_up(client, "pods")
        assert [holder.name for holder in pods()] == ["zmon/a"]


async def test_pods_are_unknown_while_the_api_server_refuses_and_the_state_of_the_source_tells_why(serve_with_pods):
    async with serve_with_pods(refusals={"list": (403, "pods is forbidden")}) as (_, client, pods):
        assert await is_up(client, "pods", up=False)
        assert await is_up(client, "gpu")
        error = await poll(lambda: source_error(client, "pods"), accept=lambda text: "403" in text)
        assert error.startswith("cannot list pods of the cluster: pods is forbidden (403). Give the service account ")
        assert pods() is None


async def test_api_server_that_does_not_answer_delays_no_other_source(serve_with_pods, monkeypatch):
    monkeypatch.setattr(requests, "ANSWER_SECONDS", 1.0)
    reads = []

    def read():
        reads.append(GPU)
        return (GPU,)

    async with serve_with_pods(read, delay_seconds=60.0) as (api, _, pods):
        assert await poll(lambda: api.lists)  # it has no answer yet
        before = len(reads)
        assert await poll(lambda: len(reads) > before + 3)
        assert pods() is None


async def test_api_server_is_not_asked_on_a_node_without_gpus(serve_with_pods):
    async with serve_with_pods(absent) as (api, client, pods):
        assert "no GPU is read on this host" in await poll(lambda: source_error(client, "pods"))
        assert (api.lists, pods()) == ([], None)


async def source_error(client, name):
    """Return the error of a source; "" if it has none, or was not read yet."""
    return (await source_statuses(client)).get(name, {}).get("error") or ""
