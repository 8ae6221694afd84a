"""Tests of the evidence that the hub gathers for a stall: stacks, and collectives in flight."""

import aiohttp
import pytest

from tests.build import killed, rank_state, waiting
from tests.detectors.stalls import inside, outside
from tests.hub.fakes import FakeAgent, all_waiting, frozen, poll, two_agents


def evidence_of(hub_client):
    """Wait for the flight table in the evidence of the one active finding."""

    async def table():
        findings = await hub_client.findings()
        return findings[0]["evidence"].get("in_flight") if findings else None

    return poll(table)


def flights(hub_client):
    """Return the flight records that the hub has gathered about its only job, by rank."""
    return next((job.flights for job in hub_client.hub.snapshots), {})


async def test_stall_has_a_flight_table(start_hub):
    """The rank that is behind has nothing pending where the others have a collective."""
    hub_client = await start_hub(FakeAgent(*all_waiting()))
    table = await evidence_of(hub_client)
    assert list(table) == ["0", "1", "2", "3"]
    assert table["2"] == {"pending": [], "num_pending": 0, "last": {"gloo:0": 300}}
    rows = [(rank, operation) for rank in "013" for operation in table[rank]["pending"]]
    assert [(r, op["group"], op["sequence"], op["op"], op["num_bytes"]) for r, op in rows] == [
        (r, "gloo:0", 301, "all_reduce", 288) for r in "013"
    ]
    (finding,) = await hub_client.findings()
    assert finding["cause"] == "unknown"
    assert "flight" not in finding["evidence"]["stacks"]["2"]


async def test_stack_is_requested_only_from_the_culprit(start_agent_and_hub):
    agent, hub_client = await start_agent_and_hub(*frozen())
    assert list(await evidence_of(hub_client)) == ["0", "1", "2", "3"]
    assert sorted(agent.evidence_requests()) == ["0?stacks=0", "1?stacks=0", "2?stacks=1", "3?stacks=0"]


async def test_evidence_is_gathered_again_when_the_diagnosis_changes(start_agent_and_hub):
    agent, hub_client = await start_agent_and_hub(*all_waiting())
    assert await evidence_of(hub_client)
    await hub_client.passes(5)
    assert len(agent.evidence_requests()) == 4
    agent.ranks = frozen()
    assert await poll(lambda: len(agent.evidence_requests()) == 8)
    assert (await hub_client.findings())[0]["cause"] == "rank_frozen"
    await hub_client.passes(5)
    assert len(agent.evidence_requests()) == 8


def resumed():
    """Return the ranks of a launch that goes on."""
    return [rank_state(rank, step=101, steps=101) for rank in range(4)]


def relaunched():
    """Return the ranks of the next launch, which has made some steps."""
    return [rank_state(rank, run_uid=f"next-{rank}", restart_count=1, step=7, steps=7) for rank in range(4)]


@pytest.mark.parametrize("next_ranks", [resumed, relaunched])
async def test_evidence_is_not_replaced_by_that_of_ranks_that_train_again(start_hub, next_ranks):
    """The finding stays open for some seconds, in which the stack of its culprit shows the training."""
    agent = FakeAgent(*frozen(), stack="stopped in train.py", stderr_tail="shard 17 is truncated")
    hub_client = await start_hub(agent)
    assert await evidence_of(hub_client)
    agent.ranks, agent.stack, agent.stderr_tail = next_ranks(), "forward in train.py", ""
    await hub_client.passes(5)
    (finding,) = await hub_client.findings("")
    assert finding["evidence"]["stacks"]["2"]["stack"] == "stopped in train.py"
    assert finding["evidence"]["stderr_tail"]["2"]["text"] == "shard 17 is truncated"
    assert len(agent.evidence_requests()) == 4


STACK = 'Thread 7 (idle): "MainThread"\n    read (/home/ann/train.py:40)\n'


def one_outside(culprit, sequence, seconds=5.0):
    """Return ranks that wait in this collective for one that has not entered it; no rank has moved for this time."""
    late = outside(culprit, sequences={"0": sequence - 1}, state_seconds=seconds)
    rest = [rank for rank in range(4) if rank != culprit]
    return [late, *(inside(r, sequence=sequence, sequences={"0": sequence}, state_seconds=seconds) for r in rest)]


async def test_rank_that_hangs_after_another_was_late_in_the_same_step_is_the_culprit(start_hub, monkeypatch):
    """The records, the frames and the stack from before show the rank that was late, which waits now."""
    monkeypatch.setattr("zmon.hub.culprit_hold.HOLD_SECONDS", 0.3)
    agent = FakeAgent(*one_outside(2, 301), stack=STACK)
    hub_client = await start_hub(agent)
    assert await evidence_of(hub_client)
    assert (await hub_client.findings())[0]["ranks"] == [2]
    agent.ranks, agent.rank_behind = one_outside(0, 302), 0

    async def has_stack_of_rank_0():
        (finding,) = await hub_client.findings()
        return finding["ranks"] == [0] and list(finding["evidence"]["stacks"]) == ["0"]

    assert await poll(has_stack_of_rank_0)
    (finding,) = await hub_client.findings()
    assert (finding["cause"], "0?stacks=1" in agent.evidence_requests()) == ("compute_hang", True)
    assert "has not issued the collective" in finding["summary"]


async def test_stack_and_flight_records_of_a_hang_stay_when_its_ranks_are_killed(start_hub):
    agent = FakeAgent(*one_outside(2, 301), stack=STACK)
    hub_client = await start_hub(agent)
    table = await evidence_of(hub_client)
    agent.ranks, agent.gone_ranks, agent.stderr_tail = [killed(rank) for rank in range(4)], range(4), "its last words"

    async def evidence_with_last_words():
        (finding,) = await hub_client.findings()
        has_words = "its last words" in str(finding["evidence"]["stderr_tail"])
        return finding["evidence"] if finding["cause"] == "rank_exited" and has_words else None

    evidence = await poll(evidence_with_last_words)
    assert evidence["in_flight"] == table
    assert (evidence["stacks"]["2"]["stack"], evidence["stacks"]["2"]["alive"]) == (STACK, False)


async def test_ranks_that_stand_still_are_asked_only_once(start_hub):
    agent = FakeAgent(*one_outside(2, 301), stack=STACK)
    hub_client = await start_hub(agent)
    assert await evidence_of(hub_client)
    await hub_client.passes(8)
    assert len(agent.evidence_requests()) == 4
    assert sorted(flights(hub_client)) == [0, 1, 2, 3]
    assert hub_client.hub.snapshots[0].frames == {2: "read() at train.py:40"}


async def test_ranks_that_go_on_within_the_step_are_not_asked_at_each_collective(start_agent_and_hub):
    agent, hub_client = await start_agent_and_hub(*one_outside(2, 301))
    assert await evidence_of(hub_client)
    for sequence in range(302, 310):
        agent.ranks = one_outside(2, sequence, seconds=0.1)
        await hub_client.passes(1)
    assert len(agent.evidence_requests()) == 4
    agent.ranks = one_outside(2, 310)
    assert await poll(lambda: len(agent.evidence_requests()) == 8)
    await hub_client.passes(5)
    assert len(agent.evidence_requests()) == 8


async def test_rank_whose_evidence_never_arrives_delays_nothing(start_hub):
    agent = FakeAgent(*all_waiting(), silent_ranks=(1,))
    hub_client = await start_hub(agent, evidence_seconds=1.0)
    assert await poll(hub_client.findings)
    before = len(agent.requests)
    table = await evidence_of(hub_client)
    assert len([path for path in agent.requests[before:] if "snapshot" in path]) > 3
    assert "answer within 1 s" in table["1"]["error"]
    assert [table[rank]["num_pending"] for rank in ("0", "2", "3")] == [1, 0, 1]


async def test_finding_other_than_a_stall_gathers_no_flight_records(start_hub):
    node_a, node_b = two_agents()
    hub_client = await start_hub(node_a, node_b)
    await hub_client.passes()
    node_b.down = True
    hub_client.hub.links[1]._answered_at -= 11  # as if eleven seconds had passed
    assert await poll(hub_client.findings)
    await hub_client.passes()
    (finding,) = await hub_client.findings()
    assert "in_flight" not in finding["evidence"]
    assert node_a.evidence_requests() == []


async def test_flight_records_are_gathered_before_the_leases_end(start_agent_and_hub):
    """On a GPU they are the best evidence: with them the first diagnosis has the rank that the others wait for."""
    late = {"step_seconds": 1.2, "state_seconds": 1.2, "device": "cuda:0"}
    agent, hub_client = await start_agent_and_hub(*(rank_state(rank, **late) for rank in range(4)))
    assert sorted(await poll(lambda: flights(hub_client))) == [0, 1, 2, 3]
    await hub_client.passes(5)
    assert sorted(agent.evidence_requests()) == [f"{rank}?stacks=0" for rank in range(4)]
    assert not await hub_client.findings()
    agent.ranks = [rank_state(r, device="cuda:0", step_seconds=2.0, overdue_seconds=0.5) for r in range(4)]
    (finding,) = await poll(hub_client.findings)
    assert (finding["cause"], finding["ranks"]) == ("compute_hang", [2])


async def test_flight_records_are_forgotten_when_a_rank_goes_on(start_agent_and_hub):
    agent, hub_client = await start_agent_and_hub(
        *(rank_state(rank, step_seconds=1.2, state_seconds=1.2) for rank in range(4))
    )
    assert await poll(lambda: flights(hub_client))
    agent.ranks = [rank_state(0), *agent.ranks[1:]]
    await hub_client.passes(4)
    assert not flights(hub_client)
    assert len(agent.evidence_requests()) == 4


async def test_only_ranks_that_stand_out_are_asked_in_a_large_job(start_agent_and_hub):
    """The flight records of thousands that wait in one collective are all alike."""
    ranks = [waiting(rank, 8.0, world_size=40) for rank in range(40)]
    ranks[23] = rank_state(23, world_size=40, step_seconds=8.0, state_seconds=8.0, overdue_seconds=6.0)
    agent, hub_client = await start_agent_and_hub(*ranks, max_flights=4)
    assert await poll(hub_client.findings)
    assert await poll(lambda: len(agent.evidence_requests()) >= 4)
    await hub_client.passes(3)
    numbers = {int(request.partition("?")[0]) for request in agent.evidence_requests()}
    assert 23 in numbers
    assert len(numbers) == 4


async def test_agent_that_was_withdrawn_meanwhile_costs_only_its_own_evidence(start_hub):
    """A node that dies is withdrawn at once, since none of its ranks may be alive."""
    node_a = FakeAgent(*(waiting(rank, 8.0) for rank in (0, 1)))
    node_b = FakeAgent(*(killed(rank, host="node-b") for rank in (2, 3)), host="node-b")
    node_b.gone_ranks = (2, 3)
    hub_client = await start_hub(node_a, node_b)
    assert await evidence_of(hub_client)
    hub = hub_client.hub
    (snapshot,), (finding,) = hub.snapshots, hub.journal.active()
    hub._agents.set_targets([link.url for link in hub.links if link.report.host == "node-a"])
    async with aiohttp.ClientSession() as session:
        await hub._stall_evidence._gather(session, snapshot, finding)
    evidence = hub.journal.find(finding.id).evidence
    assert "no longer a target" in evidence.stacks["2"].stack_error
    assert evidence.in_flight["0"].num_pending == 1


async def test_two_agents_with_one_host_name_are_asked_for_their_own_ranks(start_hub):
    node_a, node_b = (FakeAgent(*(waiting(rank, 8.0) for rank in ranks)) for ranks in ((0, 1), (2, 3)))
    hub_client = await start_hub(node_a, node_b)
    await evidence_of(hub_client)
    ranks = [{request.partition("?")[0] for request in agent.evidence_requests()} for agent in (node_a, node_b)]
    assert ranks == [{"0", "1"}, {"2", "3"}]
