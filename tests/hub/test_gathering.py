"""A stall is asked about: stacks, and what every rank has in flight."""

from tests.build import killed, rank_state, waiting
from tests.hub.fakes import FakeAgent, frozen, halves, silent, until


def evidence_of(door):
    """Wait for the evidence of the one active finding: what every rank has in flight."""

    async def table():
        found = await door.findings()
        return found[0]["evidence"].get("in_flight") if found else None

    return until(table)


def test_stall_tells_what_every_rank_has_in_flight(play):
    """The rank that is behind is the one that has nothing pending where the others have."""
    agent = FakeAgent(*silent())

    async def scenario(door):
        table = await evidence_of(door)
        assert list(table) == ["0", "1", "2", "3"]
        assert table["2"] == {"pending": [], "num_pending": 0, "last": {"gloo:0": 300}}
        assert [(r, one["group"], one["sequence"], one["op"], one["num_bytes"]) for r in "013"
                for one in table[r]["pending"]] == [(r, "gloo:0", 301, "all_reduce", 288) for r in "013"]  # fmt: skip
        (found,) = await door.findings()
        assert found["cause"] == "unknown"
        assert "flight" not in found["evidence"]["stacks"]["2"]

    play(scenario, agent)


def test_all_ranks_are_asked_what_is_in_flight_and_only_the_culprit_for_its_stack(play):
    agent = FakeAgent(*frozen())

    async def scenario(door):
        assert list(await evidence_of(door)) == ["0", "1", "2", "3"]
        assert sorted(agent.evidence_asked()) == ["0?stacks=0", "1?stacks=0", "2?stacks=1", "3?stacks=0"]

    play(scenario, agent)


def test_evidence_is_gathered_once_and_again_when_the_finding_is_refined(play):
    agent = FakeAgent(*silent())

    async def scenario(door):
        assert await evidence_of(door)
        await door.passes(5)
        assert len(agent.evidence_asked()) == 4
        agent.ranks = frozen()

        async def again():
            return len(agent.evidence_asked()) == 8

        assert await until(again)
        assert (await door.findings())[0]["cause"] == "rank_frozen"
        await door.passes(5)
        assert await again()

    play(scenario, agent)


def test_rank_whose_evidence_never_comes_holds_up_neither_the_others_nor_the_hub(play):
    agent = FakeAgent(*silent())
    agent.mute = (1,)

    async def scenario(door):
        assert await until(door.findings)
        before = len(agent.asked)
        table = await evidence_of(door)
        assert len([path for path in agent.asked[before:] if "snapshot" in path]) > 3
        assert "answer within 1 s" in table["1"]["error"]
        assert [table[rank]["num_pending"] for rank in ("0", "2", "3")] == [1, 0, 1]

    play(scenario, agent, evidence_seconds=1.0)


def test_ranks_that_cannot_be_asked_are_in_the_table_with_the_reason(play):
    agent = FakeAgent(killed(2), *(waiting(rank, 1.0) for rank in (0, 1)))

    async def scenario(door):
        table = await evidence_of(door)
        assert table["0"]["num_pending"] == 1
        assert table["2"] == {"error": "its process is gone"}
        assert table["3"] == {"error": "no agent has seen it"}

    play(scenario, agent)


def test_finding_that_is_no_stall_asks_nobody_what_is_in_flight(play):
    here, there = halves()

    async def scenario(door):
        await door.passes()
        there.down = True
        door.hub.links[1]._heard -= 11  # as if eleven seconds had passed
        (found,) = await until(door.findings)
        await door.passes()
        assert "in_flight" not in found["evidence"]

    play(scenario, here, there)


def test_flights_are_there_before_the_leases_are_over(play):
    """On a GPU they are most of what there is to know: the first verdict names the rank that others wait for."""
    agent = FakeAgent(*(rank_state(rank, device="cuda:0", step_seconds=1.2) for rank in range(4)))

    async def scenario(door):
        async def flights():
            return door.hub.snapshots and door.hub.snapshots[0].flights

        assert sorted(await until(flights)) == [0, 1, 2, 3]
        await door.passes(5)
        assert sorted(agent.evidence_asked()) == [f"{rank}?stacks=0" for rank in range(4)]
        assert not await door.findings()
        agent.ranks = [rank_state(r, device="cuda:0", step_seconds=2.0, overdue_seconds=0.5) for r in range(4)]
        (found,) = await until(door.findings)
        assert (found["cause"], found["ranks"]) == ("compute_hang", [2])

    play(scenario, agent)


def test_flights_of_ranks_that_went_on_are_forgotten(play):
    agent = FakeAgent(*(rank_state(rank, step_seconds=1.2) for rank in range(4)))

    async def scenario(door):
        async def flights():
            return door.hub.snapshots and door.hub.snapshots[0].flights

        assert await until(flights)
        agent.ranks = [rank_state(0), *agent.ranks[1:]]
        await door.passes(4)
        assert not await flights()
        assert len(agent.evidence_asked()) == 4

    play(scenario, agent)
