"""Tests of what stops the acts of a hub: a person, a breaker, a clock that was set, a full disk, or blindness."""

import errno
from dataclasses import replace

import pytest

from tests.hub.acts.acting import ENFORCED, decided, frozen, healthy, intents
from tests.hub.fakes import FakeAgent, poll
from zmon.act_stops import reset, stop, stops
from zmon.hub import acts
from zmon.hub.acts import FILE

pytestmark = pytest.mark.usefixtures("short_capsule_wait")


@pytest.mark.parametrize("name", ["all", "rule-frozen"])
async def test_stop_of_a_person_refuses_acts_until_its_reset(start_agent_and_hub, policy, tmp_path, name):
    stop(tmp_path, name, "maintenance", "ann")
    agent, hub_client = await start_agent_and_hub(*frozen(), policy=policy(ENFORCED))
    (intent,) = await decided(hub_client)
    assert (intent["result"], agent.acts) == ("refused", [])
    assert intent["reasons"] == [f"acts are stopped ({name}): maintenance"]
    assert await hub_client.metric(f'zmon_hub_acts_stopped{{by="person",name="{name}"}}') == [1.0]
    reset(tmp_path, name)
    assert await poll(lambda: hub_client.metric("zmon_hub_acts_stopped{"), until=lambda lines: not lines) == []


async def test_storm_stops_all_acts(start_hub, policy, tmp_path):
    agents = []
    for number, host in enumerate(("node-a", "node-b", "node-c", "node-d")):
        ranks = (replace(r, job_id=f"job-{number}", host=host, run_uid=f"{number} {r.rank}") for r in frozen())
        agents.append(FakeAgent(*ranks, host=host))
    hub_client = await start_hub(*agents, policy=policy(ENFORCED))
    known = await decided(hub_client, 4)
    assert "all" in stops(tmp_path)
    assert stops(tmp_path)["all"].reason == "culprits in 4 jobs on 4 hosts within 60 s"
    assert [each["result"] for each in known] == ["refused"] * 4
    assert not any(agent.acts for agent in agents)
    assert await hub_client.metric("zmon_hub_acts_stopped{") == [1.0]


async def test_act_that_did_not_help_stops_its_rule(start_hub, policy, tmp_path, monkeypatch):
    monkeypatch.setattr("zmon.hub.acts.score.RELAUNCH_SECONDS", 0.5)
    hub_client = await start_hub(FakeAgent(*frozen()), policy=policy(ENFORCED))
    (intent,) = await poll(lambda: intents(hub_client), until=lambda known: known and known[0]["outcome"])
    assert intent["outcome"] == "did_not_help"
    assert stops(tmp_path)["rule-frozen"].reason == "kill_culprit on job did not help"


async def test_blind_hub_intends_nothing(start_agent_and_hub, policy):
    agent, hub_client = await start_agent_and_hub(*healthy(), policy=policy(ENFORCED))
    await hub_client.passes()
    agent.down = True
    agent.ranks = frozen()
    assert await poll(lambda: hub_client.hub.blind)
    assert (await intents(hub_client), agent.acts) == ([], [])


async def test_hub_whose_clock_was_set_acts_on_nothing(start_agent_and_hub, policy):
    agent, hub_client = await start_agent_and_hub(*healthy(), policy=policy(ENFORCED))
    await hub_client.passes()
    hub_client.hub._clock._ahead += 3600.0  # as if the clock had been an hour ahead until now
    await hub_client.passes()
    agent.ranks = frozen()
    (intent,) = await decided(hub_client)
    assert (intent["result"], agent.acts) == ("refused", [])
    assert "the clock of the hub's host was set" in intent["reasons"][0]


async def test_full_disk_stops_only_acts(start_agent_and_hub, policy, tmp_path):
    (tmp_path / FILE).mkdir()  # a folder cannot be written as a file
    agent, hub_client = await start_agent_and_hub(*frozen(), policy=policy(ENFORCED))
    assert await poll(hub_client.findings)
    (intent,) = await decided(hub_client)
    assert (intent["result"], agent.acts) == ("refused", [])
    assert "cannot be written" in intent["reasons"][0]
    assert "intents" in await hub_client.health("unwritten")


async def test_breaker_that_cannot_be_written_stops_only_acts(start_agent_and_hub, policy, tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(acts, "stop", full)
    monkeypatch.setattr(acts, "storm_reason", lambda intents, now: "a storm")
    agent, hub_client = await start_agent_and_hub(*frozen(), policy=policy(ENFORCED))
    assert await poll(hub_client.findings)
    await hub_client.passes(10)
    assert (await intents(hub_client), agent.acts) == ([], [])
