"""Tests of how the hub asks agents for their reports: packed, or as JSON if an agent is older or its report damaged."""

from dataclasses import replace

import pytest

from tests.hub.fakes import FakeAgent, contexts, frozen, healthy, hub_over, poll, two_agents
from zmon.schema.shard import Shard


async def wait_for_finding(hub_client):
    """Wait for findings; return their causes and ranks."""
    return [(finding["cause"], finding["ranks"]) for finding in await poll(hub_client.findings)]


@pytest.mark.parametrize("is_older", [False, True], ids=["packed", "JSON of an older agent"])
async def test_findings_are_the_same_from_packed_reports_and_from_json(start_hub, is_older):
    agent = FakeAgent(*frozen(), is_older=is_older)
    assert await wait_for_finding(await start_hub(agent)) == [("rank_frozen", [2])]


async def test_hub_says_which_version_of_resting_rows_it_has(start_agent_and_hub):
    agent, hub_client = await start_agent_and_hub(*healthy())
    await hub_client.passes(3)
    first, *later = [path for path in agent.requests if "snapshot" in path]
    assert "known=" not in first
    assert all("known=" in path for path in later[1:])
    (snapshot,) = hub_client.hub.snapshots
    assert [r.rank for r in snapshot.ranks] == [0, 1, 2, 3]


async def test_agent_whose_packed_report_is_damaged_is_asked_for_json(start_hub):
    agent = FakeAgent(*frozen(), spoil=lambda body: body[:-1])
    hub_client = await start_hub(agent)
    assert await wait_for_finding(hub_client) == [("rank_frozen", [2])]
    assert all(link.reachable for link in hub_client.hub.links)


async def test_agent_with_a_huge_version_of_plans_is_the_only_one_unreachable(start_hub):
    """The hub would send the version back in its next request."""
    node_a, node_b = two_agents()
    node_a.plans_version = "x" * (2 << 20)
    hub_client = await start_hub(node_a, node_b)
    await hub_client.passes(3)
    assert {link.url: link.reachable for link in hub_client.hub.links} == {node_a.url: False, node_b.url: True}


async def test_hub_of_a_shard_asks_for_its_jobs_and_judges_no_others(tmp_path):
    node_a, node_b = two_agents()
    node_a.ranks = [replace(rank, job_id="a") for rank in node_a.ranks]
    node_b.ranks = [replace(rank, job_id="b") for rank in node_b.ranks]

    async with contexts([node_a, node_b]), hub_over(tmp_path, node_a, node_b, shard=Shard(1, 4)) as hub_client:
        await hub_client.passes(2)
        assert [snapshot.job_id for snapshot in hub_client.hub.snapshots] == ["b"]
        assert len(await hub_client.metric('zmon_hub_last_pass_timestamp_seconds{shard="1/4"}')) == 1
        assert all("shard=1%2F4" in path or "shard=1/4" in path for path in node_a.requests if "snapshot" in path)
