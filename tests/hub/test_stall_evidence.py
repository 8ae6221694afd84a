"""Tests of the evidence that the hub gathers for a stall: stacks, and collectives in flight."""

import aiohttp

from tests.build import killed, rank_state, waiting
from tests.hub.fakes import FakeAgent, all_waiting, frozen, poll, two_agents


def evidence_of(hub_client):
    """Wait for the flight table in the evidence of the one active finding."""

    async def table():
        finding = await hub_client.findings()
        return finding[0]["evidence"].get("in_flight") if finding else None

    return poll(table)


def test_stall_has_a_flight_table(run_scenario):
    """The rank that is behind has nothing pending where the others have a collective."""
    agent = FakeAgent(*all_waiting())

    async def scenario(hub_client):
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

    run_scenario(scenario, agent)


def test_stack_is_requested_only_from_the_culprit(run_scenario):
    agent = FakeAgent(*frozen())

    async def scenario(hub_client):
        assert list(await evidence_of(hub_client)) == ["0", "1", "2", "3"]
        assert sorted(agent.evidence_requests()) == ["0?stacks=0", "1?stacks=0", "2?stacks=1", "3?stacks=0"]

    run_scenario(scenario, agent)


def test_evidence_is_gathered_again_when_the_diagnosis_changes(run_scenario):
    agent = FakeAgent(*all_waiting())

    async def scenario(hub_client):
        assert await evidence_of(hub_client)
        await hub_client.passes(5)
        assert len(agent.evidence_requests()) == 4
        agent.ranks = frozen()

        async def again():
            return len(agent.evidence_requests()) == 8

        assert await poll(again)
        assert (await hub_client.findings())[0]["cause"] == "rank_frozen"
        await hub_client.passes(5)
        assert await again()

    run_scenario(scenario, agent)


def test_rank_whose_evidence_never_arrives_delays_nothing(run_scenario):
    agent = FakeAgent(*all_waiting())
    agent.silent_ranks = (1,)

    async def scenario(hub_client):
        assert await poll(hub_client.findings)
        before = len(agent.requests)
        table = await evidence_of(hub_client)
        assert len([path for path in agent.requests[before:] if "snapshot" in path]) > 3
        assert "answer within 1 s" in table["1"]["error"]
        assert [table[rank]["num_pending"] for rank in ("0", "2", "3")] == [1, 0, 1]

    run_scenario(scenario, agent, evidence_seconds=1.0)


def test_ranks_that_cannot_be_asked_are_in_the_table_with_the_reason(run_scenario):
    agent = FakeAgent(killed(2), *(waiting(rank, 1.0) for rank in (0, 1)))

    async def scenario(hub_client):
        table = await evidence_of(hub_client)
        assert table["0"]["num_pending"] == 1
        assert table["2"] == {"error": "its process is gone"}
        assert table["3"] == {"error": "no agent has reported it"}

    run_scenario(scenario, agent)


def test_finding_other_than_a_stall_gathers_no_flight_records(run_scenario):
    node_a, node_b = two_agents()

    async def scenario(hub_client):
        await hub_client.passes()
        node_b.down = True
        hub_client.hub.links[1]._answered_at -= 11  # as if eleven seconds had passed
        (finding,) = await poll(hub_client.findings)
        await hub_client.passes()
        assert "in_flight" not in finding["evidence"]

    run_scenario(scenario, node_a, node_b)


def test_flight_records_are_gathered_before_the_leases_end(run_scenario):
    """On a GPU they are the best evidence: with them the first diagnosis has the rank that the others wait for."""
    agent = FakeAgent(*(rank_state(rank, device="cuda:0", step_seconds=1.2) for rank in range(4)))

    async def scenario(hub_client):
        async def flights():
            return hub_client.hub.snapshots and hub_client.hub.snapshots[0].flights

        assert sorted(await poll(flights)) == [0, 1, 2, 3]
        await hub_client.passes(5)
        assert sorted(agent.evidence_requests()) == [f"{rank}?stacks=0" for rank in range(4)]
        assert not await hub_client.findings()
        agent.ranks = [rank_state(r, device="cuda:0", step_seconds=2.0, overdue_seconds=0.5) for r in range(4)]
        (finding,) = await poll(hub_client.findings)
        assert (finding["cause"], finding["ranks"]) == ("compute_hang", [2])

    run_scenario(scenario, agent)


def test_flight_records_are_forgotten_when_a_rank_goes_on(run_scenario):
    agent = FakeAgent(*(rank_state(rank, step_seconds=1.2) for rank in range(4)))

    async def scenario(hub_client):
        async def flights():
            return hub_client.hub.snapshots and hub_client.hub.snapshots[0].flights

        assert await poll(flights)
        agent.ranks = [rank_state(0), *agent.ranks[1:]]
        await hub_client.passes(4)
        assert not await flights()
        assert len(agent.evidence_requests()) == 4

    run_scenario(scenario, agent)


def test_only_ranks_that_stand_out_are_asked_in_a_large_job(run_scenario):
    """The flight records of thousands that wait in one collective are all alike."""
    ranks = [waiting(rank, 8.0, world_size=40) for rank in range(40)]
    ranks[23] = rank_state(23, world_size=40, step_seconds=8.0, state_seconds=8.0, overdue_seconds=6.0)
    agent = FakeAgent(*ranks)

    async def scenario(hub_client):
        assert await poll(hub_client.findings)

        async def asked_ranks():
            return len(agent.evidence_requests()) >= 4

        assert await poll(asked_ranks)
        await hub_client.passes(3)
        numbers = {int(request.partition("?")[0]) for request in agent.evidence_requests()}
        assert 23 in numbers
        assert len(numbers) == 4

    run_scenario(scenario, agent, max_flights=4)


def test_agent_that_was_withdrawn_meanwhile_costs_only_its_own_evidence(run_scenario):
    """A node that dies is withdrawn at once, since none of its ranks may be alive."""
    node_a = FakeAgent(*(waiting(rank, 8.0) for rank in (0, 1)))
    node_b = FakeAgent(*(killed(rank, host="node-b") for rank in (2, 3)), host="node-b")

    async def scenario(hub_client):
        assert await evidence_of(hub_client)
        hub = hub_client.hub
        (snapshot,), (finding,) = hub.snapshots, hub.journal.active()
        hub._agents.set_targets([link.url for link in hub.links if link.report.host == "node-a"])
        async with aiohttp.ClientSession() as session:
            await hub._stall_evidence._gather(session, snapshot, finding)
        evidence = hub.journal.find(finding.id).evidence
        assert "no longer a target" in evidence.stacks["2"].stack_error
        assert evidence.in_flight["0"].num_pending == 1

    run_scenario(scenario, node_a, node_b)


def test_two_agents_with_one_host_name_are_asked_for_their_own_ranks(run_scenario):
    node_a, node_b = (FakeAgent(*(waiting(rank, 8.0) for rank in ranks)) for ranks in ((0, 1), (2, 3)))

    async def scenario(hub_client):
        await evidence_of(hub_client)
        asked = [{path[0] for path in agent.evidence_requests()} for agent in (node_a, node_b)]
        assert asked == [{"0", "1"}, {"2", "3"}]

    run_scenario(scenario, node_a, node_b)
