"""Tests of the plan endpoint: planned and measured amounts side by side."""

import pytest

from tests.build import JOB, plan, rank_state
from tests.hub.fakes import FakeAgent, healthy, step_records, two_agents


async def rows(hub_client):
    """Return the ranks in the answer of the hub."""
    return (await hub_client.get(f"/api/v1/jobs/{JOB}/plan"))["ranks"]


def agent_with_plan(plan_):
    """Return the agent of four ranks, of which rank 0 has written this plan."""
    return FakeAgent(*healthy(), plans={"uid-0": plan_}, plans_version="first")


async def test_plan_and_measurement_are_side_by_side(start_hub):
    agent = agent_with_plan(plan(seconds=(0.02, 0.01, 0.01, 0.01), totals={"samples_per_second": 5.0}))
    hub_client = await start_hub(agent)
    await hub_client.passes(1)
    agent.records = step_records(1, 5)
    await hub_client.passes()
    first = (await rows(hub_client))[0]
    assert (first["rank"], first["host"], first["tables"], first["num_tables"]) == (0, "node-a", ["t0"], 1)
    assert (first["planned"]["seconds"], first["measured"]["seconds"]) == (0.02, 0.01)
    assert (first["planned"]["received_bytes"], first["measured"]["received_bytes"]) == (60_000, 8)
    assert (first["planned"]["lookups"], first["measured"]["lookups"]) == (1000, None)  # the ranks report none
    assert first["measured"]["memory_bytes"] == 200_000_000
    assert (await hub_client.get(f"/api/v1/jobs/{JOB}/plan"))["totals"] == {"samples_per_second": 5.0}
    await hub_client.get("/api/v1/jobs/nothing/plan", status=404)


async def test_plan_is_sent_again_only_after_a_change(start_hub):
    agent = agent_with_plan(plan())
    hub_client = await start_hub(agent)
    await hub_client.passes(4)
    queries = [path.partition("?")[2] for path in agent.requests if "snapshot" in path]
    assert queries[0] == "about=8"  # steps of each rank; no version of plans
    assert all("plans=first" in path for path in queries[1:])
    assert (await rows(hub_client))[2]["tables"] == ["t2"]
    agent.plans, agent.plans_version = {"uid-0": plan(("a",), ("b",), ("c",), ("d",))}, "second"
    await hub_client.passes()
    assert (await rows(hub_client))[2]["tables"] == ["c"]


@pytest.mark.parametrize(
    "plans",
    [{}, {"uid-of-yesterday": plan()}, {"uid-0": plan(("t0",), ("t1",))}],
    ids=["no plan", "of another launch", "of another world size"],
)
async def test_job_without_a_plan_of_its_own_has_rows_without_planned_amounts(start_hub, plans):
    hub_client = await start_hub(FakeAgent(*healthy(), plans=plans, plans_version="first"))
    await hub_client.passes()
    answer = await hub_client.get(f"/api/v1/jobs/{JOB}/plan")
    assert (answer["totals"], answer["ranks"][3]["planned"], answer["ranks"][3]["tables"]) == (None, None, [])


async def test_new_launch_does_not_use_the_plan_of_the_previous_launch(start_hub):
    agent = agent_with_plan(plan())
    hub_client = await start_hub(agent)
    await hub_client.passes()
    assert (await rows(hub_client))[0]["planned"] is not None
    agent.ranks = [rank_state(r, attempt=1, run_uid=f"again-{r}", start=1.9e9) for r in range(4)]
    await hub_client.passes()
    assert (await rows(hub_client))[0]["planned"] is None


async def test_plan_stays_while_the_host_of_rank_0_is_unwatched(start_hub):
    node_a, node_b = two_agents()
    node_a.plans, node_a.plans_version = {"uid-0": plan()}, "first"
    hub_client = await start_hub(node_a, node_b)
    await hub_client.passes()
    node_a.down = True
    await hub_client.passes()
    assert [row["tables"] for row in await rows(hub_client)] == [["t0"], ["t1"], ["t2"], ["t3"]]
