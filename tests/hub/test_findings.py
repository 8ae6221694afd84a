"""Tests of a hub's findings: when it publishes and resolves them, and what wakes it."""

import asyncio
import time
from dataclasses import replace

import msgspec
import pytest

from tests.build import JOB, killed, waiting
from tests.hub.fakes import FakeAgent, frozen, healthy, poll
from zmon.detectors import configured
from zmon.hub import Hub, HubConfig
from zmon.schema.finding import Finding


def test_hub_is_quiet_and_healthy_while_the_job_trains(play):
    async def scenario(door):
        await door.passes()
        assert await door.findings("") == []
        assert (await door.get("/healthz"))["healthy"] is True
        (job,) = (await door.get("/api/v1/jobs"))["jobs"]
        assert (job["job_id"], job["state"], job["ranks_seen"], job["world_size"]) == (JOB, "train", 4, 4)
        assert await door.metric("zmon_finding{") == []
        assert await door.metric("zmon_hub_coverage_ratio") == [1.0]

    play(scenario, FakeAgent(*healthy()))


def test_finding_is_published_everywhere_with_its_stack(play):
    agent = FakeAgent(*frozen())

    async def scenario(door):
        async def with_stack():
            finding = await door.findings()
            return finding[0] if finding and "stacks" in finding[0]["evidence"] else None

        finding = await poll(with_stack)
        assert msgspec.convert(finding, Finding).cause == "rank_frozen"
        assert (finding["schema"], finding["ranks"], finding["hosts"]) == (1, [2], ["node-a"])
        assert finding["evidence"]["stacks"]["2"]["stack"] == "stack of rank 2"
        assert list(finding["evidence"]["stacks"]) == ["2"]
        labels = 'cause="rank_frozen",detector="stall",host="node-a",job_id="job",rank="2",severity="critical"'
        assert await door.metric(f"zmon_finding{{{labels}}}") == [1.0]
        (job,) = (await door.get("/api/v1/jobs"))["jobs"]
        assert (job["state"], job["findings"]) == ("stalled", [finding["id"]])

    play(scenario, agent)


def test_hub_uses_the_thresholds_of_its_site(play):
    """The rank has been stopped for two seconds; this site allows a minute."""

    async def scenario(door):
        await door.passes()
        assert await door.findings("") == []

    play(scenario, FakeAgent(*frozen()), detectors=configured({"stall": {"stopped_seconds": 60.0}}))


def test_suspicion_wakes_the_hub_at_once(play):
    agent = FakeAgent(*healthy())

    async def scenario(door):
        assert await poll(door.heartbeat)
        await asyncio.sleep(0.2)
        agent.ranks = frozen()
        agent.suspects, agent.version = [{"job_id": JOB, "rank": 2, "reason": "stopped"}], 1
        struck = time.monotonic()
        assert await poll(door.findings)
        assert time.monotonic() - struck < 2.0

    play(scenario, agent, interval_seconds=30.0)


def test_number_of_passes_is_limited_during_a_lasting_suspicion(play):
    agent = FakeAgent(*healthy())
    agent.suspects, agent.version = [{"job_id": JOB, "rank": 2, "reason": "overdue"}], 1

    async def scenario(door):
        await asyncio.sleep(1.0)
        assert len([path for path in agent.requests if "snapshot" in path]) < 10

    play(scenario, agent, alert_interval_seconds=0.25)


def test_finding_resolves_when_the_rank_goes_on_and_keeps_its_id(play):
    agent = FakeAgent(*frozen())

    async def scenario(door):
        (finding,) = await poll(door.findings)
        agent.ranks = healthy()

        async def resolved():
            return not await door.findings()

        assert await poll(resolved)
        (after,) = await door.findings("")
        assert after["id"] == finding["id"]
        assert 2.0 <= after["resolved"] - finding["detected"] < 6.0
        assert await door.metric("zmon_finding{") == []

    play(scenario, agent)


def test_finding_resolves_when_the_boxes_of_its_job_are_pruned(play):
    agent = FakeAgent(*frozen())

    async def scenario(door):
        assert await poll(door.findings)
        agent.ranks = ()

        async def resolved():
            return not await door.findings()

        assert await poll(resolved)

    play(scenario, agent)


def test_findings_are_filtered_by_job_and_activity(play):
    other = [replace(rank, job_id="other") for rank in frozen()]
    agent = FakeAgent(*frozen(), *other)

    async def scenario(door):
        async def both():
            return len(await door.findings()) == 2

        assert await poll(both)
        assert [f["job_id"] for f in await door.findings("?job_id=other")] == ["other"]
        assert await door.findings("?job_id=none&active=1") == []
        times = [f["detected"] for f in await door.findings("")]
        assert times == sorted(times, reverse=True)
        assert all(f["evidence"]["ranks"] for f in await door.findings("?active=1"))
        assert [f["evidence"] for f in await door.findings("?active=1&evidence=0")] == [{}, {}]

    play(scenario, agent)


def test_death_stays_one_finding_while_the_launcher_ends_the_others(play):
    agent = FakeAgent(killed(2), *(waiting(rank, 1.0) for rank in (0, 1, 3)))

    async def scenario(door):
        (first,) = await poll(door.findings)
        agent.ranks = [killed(2, 5.0), *(killed(rank, 1.0, exit_status="signal SIGTERM") for rank in (0, 1, 3))]
        await door.passes(5)
        (second,) = await door.findings("")
        assert (second["id"], second["ranks"], second["onset"]) == (first["id"], [2], first["onset"])

    play(scenario, agent)


@pytest.mark.parametrize("moment", range(5))
def test_hub_can_be_cancelled_while_it_is_woken(tmp_path, moment):
    """Before Python 3.12 `asyncio.wait_for` may swallow a cancellation at this moment; the hub then hangs."""

    async def main():
        hub = Hub(HubConfig((), tmp_path))
        task = asyncio.create_task(hub.run_passes(None))
        await asyncio.sleep(0.05)
        hub._agents.suspected.set()
        for _ in range(moment):
            await asyncio.sleep(0)
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=0.3)
        if not done:
            task.cancel()
            pytest.fail("the hub still makes passes")

    asyncio.run(main())
