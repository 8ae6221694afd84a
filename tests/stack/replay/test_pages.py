"""Tests of the page of metrics of a recorded agent, and of its silence."""

import asyncio

import pytest
from aiohttp import ClientSession

from tests.stack.replay.test_recordings import agents_of


async def test_page_has_the_metrics_of_the_ranks_and_the_host():
    agent = agents_of("frozen-rank")[2]
    async with agent.serve(), ClientSession(agent.url) as client, client.get("/metrics") as answer:
        page = await answer.text()
    assert 'zmon_steps_total{host="node-2",job_id="recorded-frozen-rank",rank="2"}' in page
    assert 'zmon_source_up{host="node-2",source="nic"} 1' in page


async def test_host_that_is_lost_answers_neither_the_hub_nor_prometheus():
    agent = agents_of("lost-host", before=-20.0)[2]
    async with agent.serve(), ClientSession(agent.url) as client:
        for path in ("/metrics", "/api/v1/snapshot", "/api/v1/suspects"):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(client.get(path), 0.3)
        async with client.get("/healthz") as health:
            assert health.status == 200
