"""Tests of the acts of a hub over HTTP: what it intends, asks agents for, and writes down first."""

import json
import re
from dataclasses import replace

import pytest
from aiohttp import web

from tests.build import disconnected, killed, waiting
from tests.hub import fakes
from tests.hub.acts.acting import ENFORCED, decided, frozen, healthy, intents, on_disk
from tests.hub.acts.builds import RULE, of_launch
from tests.hub.fakes import FakeAgent, hub_over, poll
from zmon.hub import acts
from zmon.hub.acts import FILE

pytestmark = pytest.mark.usefixtures("short_capsule_wait")


def on_two_hosts(ranks):
    """Return the agents of two hosts: node-a has the first of these ranks, node-b the others."""
    first, *others = ranks
    return FakeAgent(first), FakeAgent(*(replace(rank, host="node-b") for rank in others), host="node-b")


async def test_hub_without_a_policy_intends_nothing(start_agent_and_hub, tmp_path):
    agent, hub_client = await start_agent_and_hub(*frozen())
    assert await poll(hub_client.findings)
    await hub_client.passes(10)
    assert await hub_client.get("/api/v1/intents") == {
        "intents": [], "num_intents": 0, "scores": [], "stops": {}, "has_policy": False, "schema": 1,
    }  # fmt: skip
    assert agent.acts == []
    assert not (tmp_path / FILE).exists()


async def test_rule_that_observes_only_writes_its_intent_down(start_agent_and_hub, policy, tmp_path):
    agent, hub_client = await start_agent_and_hub(*frozen(), policy=policy(RULE))
    (intent,) = await decided(hub_client)
    (finding,) = await hub_client.findings()
    expected = {"rule": "frozen", "act": "kill_culprit", "mode": "observe", "result": "observed", "reasons": [],
                "finding": finding["id"], "cause": "rank_frozen", "proof": "process_state", "ranks": [2],
                "hosts": ["node-a"], "run_uids": ["uid 2"], "step": finding["step"]}  # fmt: skip
    assert {key: intent[key] for key in expected} == expected
    assert intent["capsule"] == finding["capsule"]
    assert on_disk(tmp_path) == [intent]
    await hub_client.passes(5)
    assert agent.acts == []
    assert await hub_client.metric("zmon_hub_acts_total{") == [1.0, 0.0, 0.0, 0.0]
    agent.ranks = healthy(step=101)

    async def score():
        return (await hub_client.get("/api/v1/intents"))["scores"]

    wrong = {"cause": "rank_frozen", "right": 0, "wrong": 1, "unclear": 0, "open": 0, "is_proven": False}
    assert await poll(score, until=[wrong].__eq__) == [wrong]


async def test_rule_that_enforces_asks_the_agent_of_the_rank_once(start_hub, policy, tmp_path):
    agent, other = on_two_hosts(frozen())
    written = []
    agent.answer_act = lambda: written.extend(on_disk(tmp_path)) or {}
    hub_client = await start_hub(agent, other, policy=policy(ENFORCED))
    (intent,) = await decided(hub_client)
    await hub_client.passes(10)
    (request,) = agent.acts
    assert other.acts == []
    assert (request["act"], request["rank"], request["run_uid"]) == ("kill_culprit", 2, "uid 2")
    assert request["intent"] == intent["id"]
    reason = f"rule frozen (override: a test): rank_frozen by process_state, finding {intent['finding']}"
    assert request["reason"] == reason
    assert (intent["result"], intent["outcome"]) == ("acted", "")
    assert intent["reasons"] == ["override: a test", "node-a: SIGKILL to process 1002"]
    assert [each["result"] for each in written] == ["unanswered"]  # on disk before the agent was asked
    again = on_two_hosts(healthy(attempt=1, step=51, steps=1))
    agent.ranks, other.ranks = (each.ranks for each in again)
    (intent,) = await poll(lambda: intents(hub_client), until=lambda known: known[0]["outcome"])
    assert intent["outcome"] == "steps_again"
    assert intent["outcome_seconds"] >= 2.0


async def test_act_waits_for_its_capsule_only_for_a_moment(start_hub, policy, tmp_path):
    (tmp_path / "incidents").write_text("a file, so that no capsule can be written")
    hub_client = await start_hub(FakeAgent(*frozen()), policy=policy(ENFORCED))
    (intent,) = await decided(hub_client)
    assert (intent["result"], intent["capsule"]) == ("acted", None)


@pytest.mark.usefixtures("resolves_soon")
async def test_finding_that_heals_while_its_rule_waits_asks_for_nothing(start_agent_and_hub, policy):
    agent, hub_client = await start_agent_and_hub(*frozen(), policy=policy(ENFORCED, seconds=60.0))
    assert await poll(hub_client.findings)
    agent.ranks = healthy(step=101)
    assert await poll(hub_client.no_findings)
    assert (await intents(hub_client), agent.acts) == ([], [])


async def test_rule_without_score_or_override_only_observes_with_the_reason(start_agent_and_hub, policy):
    agent, hub_client = await start_agent_and_hub(*frozen(), policy=policy({**RULE, "mode": "enforce"}))
    (intent,) = await decided(hub_client)
    assert (intent["mode"], intent["result"], agent.acts) == ("observe", "observed", [])
    assert "needs 20 right and no wrong intents of rank_frozen, and has 0 right and 0 wrong" in intent["reasons"][0]


async def test_other_rule_acts_ten_minutes_after_an_act(start_agent_and_hub, policy, monkeypatch):
    """A rule kills the culprit, the job is not restarted, and another rule ends it."""
    end = {**ENFORCED, "name": "end", "causes": ["rank_exited"], "proofs": ["lock"], "act": "end_job"}
    agent, hub_client = await start_agent_and_hub(*frozen(), policy=policy(ENFORCED, end))
    await decided(hub_client)
    agent.ranks = of_launch([killed(2, 1.0), *(waiting(rank, 2.0) for rank in (0, 1, 3))], max_restarts=0)
    (refused, _) = await decided(hub_client, 2)
    assert (refused["rule"], refused["result"]) == ("end", "refused")
    assert re.fullmatch(
        r"frozen acted on this job \d+ s ago: one act in 10 minutes, then it is decided again", refused["reasons"][0]
    )
    await hub_client.passes(5)
    assert [request["act"] for request in agent.acts] == ["kill_culprit"]
    monkeypatch.setattr("zmon.hub.acts.guards.ACT_INTERVAL_SECONDS", 0.5)
    monkeypatch.setattr(acts, "AGAIN_SECONDS", 0.5)
    acted = await poll(lambda: intents(hub_client), until=lambda known: known[0]["result"] == "acted")
    assert [(each["rule"], each["result"]) for each in acted] == [("end", "acted"), ("frozen", "acted")]
    assert [request["act"] for request in agent.acts] == ["kill_culprit", "end_job"]


@pytest.mark.usefixtures("resolves_soon")
async def test_finding_that_heals_within_the_ten_minutes_is_not_acted_on(start_hub, policy, monkeypatch):
    agent = FakeAgent(*frozen(), answer_act=lambda: {"result": "refused", "reason": "a debugger traces it"})
    hub_client = await start_hub(agent, policy=policy(ENFORCED))
    await decided(hub_client)
    agent.ranks = healthy(step=101)
    assert await poll(hub_client.no_findings)
    monkeypatch.setattr(acts, "AGAIN_SECONDS", 0.1)
    await hub_client.passes(10)
    assert len(agent.acts) == 1


async def test_repeated_refusal_is_told_once(start_hub, policy, monkeypatch):
    monkeypatch.setattr(acts, "AGAIN_SECONDS", 0.2)
    agent = FakeAgent(*frozen(), answer_act=lambda: {"result": "refused", "reason": "a debugger traces it"})
    news, take_new = [], acts.Intents.take_new
    monkeypatch.setattr(acts.Intents, "take_new", lambda intents: news.extend(taken := take_new(intents)) or taken)
    hub_client = await start_hub(agent, policy=policy(ENFORCED))
    assert await poll(lambda: len(agent.acts) >= 3)
    agent.answer_act = None  # the debugger has left, and the agent acts
    assert await poll(lambda: intents(hub_client), until=lambda known: known[0]["result"] == "acted")
    await hub_client.passes(2)
    assert [each.result for each in news] == ["refused", "acted"]
    assert news[0].reasons[1:] == ("node-a: a debugger traces it",)
    (refused,) = await hub_client.metric('zmon_hub_acts_total{act="kill_culprit",cause="rank_frozen",result="refused"')
    assert refused >= 3


async def test_agent_without_the_role_is_an_unanswered_intent_that_is_not_asked_again(start_hub, policy):
    agent = FakeAgent(*frozen(), answer_act=lambda: web.Response(status=403, text="no"))
    hub_client = await start_hub(agent, policy=policy(ENFORCED))
    (intent,) = await poll(lambda: intents(hub_client), until=lambda known: known and len(known[0]["reasons"]) > 1)
    assert intent["result"] == "unanswered"
    assert "answered 403" in intent["reasons"][1]
    await hub_client.passes(5)
    assert len(agent.acts) == 1


async def test_hub_that_was_killed_after_its_line_asks_nobody_again(policy, tmp_path):
    agent = FakeAgent(*frozen())
    async with agent.serve():
        async with hub_over(tmp_path, agent, policy=policy(ENFORCED)) as hub_client:
            await decided(hub_client)
        lines = (tmp_path / FILE).read_text().splitlines()
        before = next(line for line in lines if json.loads(line)["result"] == "unanswered")
        (tmp_path / FILE).write_text(before + "\n" + lines[-1][:40])  # as if it was killed in the middle of the next
        async with hub_over(tmp_path, agent, policy=policy(ENFORCED)) as hub_client:
            assert await poll(hub_client.findings)
            await hub_client.passes(20)
            assert [each["result"] for each in await intents(hub_client)] == ["unanswered"]
    assert len(agent.acts) == 1


async def test_two_hubs_have_one_intent_each_about_the_same_start_of_a_rank(tmp_path, policy):
    agent = FakeAgent(*frozen())
    async with (
        agent.serve(),
        hub_over(tmp_path / "one", agent, policy=policy(ENFORCED)) as one,
        hub_over(tmp_path / "two", agent, policy=policy(ENFORCED)) as two,
    ):
        await decided(one)
        await decided(two)
    assert {request["run_uid"] for request in agent.acts} == {"uid 2"}  # by which the agent acts once


async def test_each_host_is_asked_to_end_a_job(start_hub, policy):
    agents = on_two_hosts(frozen())
    hub_client = await start_hub(*agents, policy=policy({**ENFORCED, "act": "end_job"}))
    (intent,) = await decided(hub_client)
    assert [[request["act"] for request in agent.acts] for agent in agents] == [["end_job"], ["end_job"]]
    assert len(intent["run_uids"]) == 2


async def test_capture_is_the_capsule_of_its_finding_and_asks_no_agent(start_agent_and_hub, policy, monkeypatch):
    monkeypatch.setattr(acts, "CAPSULE_SECONDS", 60.0)  # it waits for the capsule on a busy machine as well
    agent, hub_client = await start_agent_and_hub(*frozen(), policy=policy({**ENFORCED, "act": "capture"}))
    (intent,) = await decided(hub_client)
    (finding,) = await hub_client.findings()
    assert intent["result"] == "acted"
    assert intent["capsule"]
    assert intent["capsule"] == finding["capsule"]
    assert agent.acts == []


async def test_capture_without_a_capsule_is_refused(start_hub, policy, tmp_path):
    (tmp_path / "incidents").write_text("a file, so that no capsule can be written")
    hub_client = await start_hub(FakeAgent(*frozen()), policy=policy({**ENFORCED, "act": "capture"}))
    (intent,) = await decided(hub_client)
    assert (intent["result"], intent["capsule"]) == ("refused", None)
    assert "the capsule was not written within" in intent["reasons"][0]


async def test_end_and_incident_of_a_job_say_what_zmon_did(start_agent_and_hub, policy):
    agent, hub_client = await start_agent_and_hub(*frozen(), policy=policy(ENFORCED))
    (intent,) = await decided(hub_client)
    gone = [killed(2, 9.0), *(disconnected(rank, 8.5) for rank in (0, 1, 3))]
    agent.ranks = of_launch([replace(rank, step=100) for rank in gone])

    async def ends():
        return (await hub_client.get("/api/v1/ends"))["ends"]

    (end,) = await poll(ends)
    assert end["summary"].startswith("zmon ended rank 2 because of rank_frozen (rule frozen); ")

    async def timeline():
        moments = (await hub_client.get(f"/api/v1/incidents/{intent['finding']}"))["timeline"]
        return [(each["what"], each["who"]) for each in moments if each["what"].startswith("act: ")]

    line = "act: kill culprit, acted: override: a test; node-a: SIGKILL to process 1002"
    assert (await poll(timeline))[0] == (line, "zmon, rule frozen")


async def test_culprit_that_has_ended_is_left_out(start_hub, policy):
    frozen_rank = replace(fakes.stopped(2), stopped_seconds=9.0, step_seconds=9.0)
    ranks = of_launch([frozen_rank, *(waiting(rank, 9.0) for rank in (0, 1)), killed(3, 2.0)], max_restarts=0)
    hub_client = await start_hub(FakeAgent(*ranks), policy=policy(ENFORCED))
    (intent,) = await decided(hub_client)
    (finding,) = await hub_client.findings()
    assert (finding["proof"], finding["ranks"], intent["ranks"]) == ("process_state", [2, 3], [2])
