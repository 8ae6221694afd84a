"""Tests of a hub's findings: when the hub publishes and resolves them, and what wakes it."""

import asyncio
from dataclasses import replace

import msgspec
import pytest

from tests.build import JOB
from tests.hub.fakes import FakeAgent, frozen, healthy, poll
from zmon.detectors import configured
from zmon.hub import Hub, HubConfig
from zmon.schema.finding import Finding


async def test_hub_is_quiet_and_healthy_while_the_job_trains(start_hub):
    hub_client = await start_hub(FakeAgent(*healthy()))
    await hub_client.passes()
    assert await hub_client.findings("") == []
    assert (await hub_client.get("/healthz"))["healthy"] is True
    (job,) = await hub_client.jobs()
    assert (job["job_id"], job["state"], job["ranks_seen"], job["world_size"]) == (JOB, "train", 4, 4)
    assert await hub_client.metric("zmon_finding{") == []
    assert await hub_client.metric("zmon_hub_coverage_ratio") == [1.0]


async def test_hub_goes_on_after_a_pass_that_failed(start_hub, monkeypatch, caplog):
    hub_client = await start_hub(FakeAgent(*healthy()))
    await hub_client.passes(1)
    with monkeypatch.context() as broken:
        broken.delattr(Hub, "_complete_pass")
        assert await poll(lambda: "a pass of the hub failed" in caplog.text)
    await hub_client.passes()


async def test_finding_is_published_everywhere_with_its_stack(start_hub):
    hub_client = await start_hub(FakeAgent(*frozen()))
    (finding,) = await poll(hub_client.findings, until=lambda known: known and "stacks" in known[0]["evidence"])
    assert msgspec.convert(finding, Finding).cause == "rank_frozen"
    assert (finding["schema"], finding["ranks"], finding["hosts"]) == (1, [2], ["node-a"])
    assert finding["evidence"]["stacks"]["2"]["stack"] == "stack of rank 2"
    assert list(finding["evidence"]["stacks"]) == ["2"]
    labels = 'cause="rank_frozen",detector="stall",host="node-a",job_id="job",rank="2",severity="critical"'
    assert await hub_client.metric(f"zmon_finding{{{labels}}}") == [1.0]
    (job,) = await hub_client.jobs()
    assert (job["state"], job["findings"]) == ("stalled", [finding["id"]])


async def test_hub_uses_the_thresholds_of_its_site(start_hub):
    """The rank has been stopped for two seconds; this site allows a minute."""
    hub_client = await start_hub(FakeAgent(*frozen()), detectors=configured({"stall": {"stopped_seconds": 60.0}}))
    await hub_client.passes()
    assert await hub_client.findings("") == []


async def test_suspicion_wakes_the_hub_at_once(start_agent_and_hub):
    agent, hub_client = await start_agent_and_hub(*healthy(), interval_seconds=30.0)
    assert await poll(hub_client.heartbeat)
    await asyncio.sleep(0.2)
    agent.ranks = frozen()
    agent.suspects, agent.version = [{"job_id": JOB, "rank": 2, "reason": "stopped"}], 1
    assert await poll(hub_client.findings)  # within 5 s (fakes.TIMEOUT_SECONDS); the next interval ends after 30 s


async def test_agent_whose_suspects_change_all_the_time_does_not_keep_the_hub_busy(start_hub):
    class Restless(FakeAgent):
        """An agent that answers each long poll at once, with other suspects."""

        async def poll(self, request):
            self.version += 1
            self.suspects = [{"job_id": JOB, "rank": self.version % 4, "reason": "overdue"}]
            return await super().poll(request)

    agent = Restless(*healthy())
    hub_client = await start_hub(agent)
    assert await poll(hub_client.heartbeat)
    before = agent.version
    await asyncio.sleep(0.5)
    assert agent.version - before <= 6  # the hub begins a long poll every 0.1 s at most


async def test_number_of_passes_is_limited_during_a_lasting_suspicion(start_hub):
    agent = FakeAgent(*healthy(), suspects=[{"job_id": JOB, "rank": 2, "reason": "overdue"}], version=1)
    await start_hub(agent, alert_interval_seconds=0.25)
    await asyncio.sleep(1.0)
    assert len([path for path in agent.requests if "snapshot" in path]) < 10  # a pass every 0.125 s at most


@pytest.mark.usefixtures("resolves_soon")
@pytest.mark.parametrize("later_ranks", [healthy(), ()], ids=["its rank goes on", "the boxes of its job are pruned"])
async def test_finding_resolves_with_its_fault(start_agent_and_hub, later_ranks):
    agent, hub_client = await start_agent_and_hub(*frozen())
    (finding,) = await poll(hub_client.findings)
    agent.ranks = later_ranks
    assert await poll(hub_client.no_findings)
    (after,) = await hub_client.findings("")
    assert after["id"] == finding["id"]
    assert after["resolved"] > finding["detected"]
    assert await hub_client.metric("zmon_finding{") == []


async def test_findings_are_filtered_by_job_and_activity(start_hub):
    other_job = [replace(rank, job_id="other") for rank in frozen()]
    hub_client = await start_hub(FakeAgent(*frozen(), *other_job))
    await poll(hub_client.findings, until=lambda findings: len(findings) == 2)
    assert [f["job_id"] for f in await hub_client.findings("?job_id=other")] == ["other"]
    assert await hub_client.findings("?job_id=none&active=1") == []
    times = [f["detected"] for f in await hub_client.findings("")]
    assert times == sorted(times, reverse=True)
    assert all(f["evidence"]["ranks"] for f in await hub_client.findings("?active=1"))
    assert [f["evidence"] for f in await hub_client.findings("?active=1&evidence=0")] == [{}, {}]


@pytest.mark.parametrize("num_turns", range(5))  # of the event loop, from the wake to the cancellation
async def test_passes_can_be_cancelled_while_the_hub_is_woken(tmp_path, num_turns):
    """Before Python 3.12 `asyncio.wait_for` may swallow a cancellation at this moment; the hub then hangs."""
    hub = Hub(HubConfig((), tmp_path))
    task = asyncio.create_task(hub.run_passes(None))
    await asyncio.sleep(0.05)
    hub._agents.suspected.set()
    for _ in range(num_turns):
        await asyncio.sleep(0)
    task.cancel()
    done, _ = await asyncio.wait([task], timeout=0.3)
    if not done:
        task.cancel()
        pytest.fail("the hub still makes passes")
