"""Tests of the trainer's plan in snapshots: it is sent once, and again when it has changed."""

from tests.agent.agent_client import poll, snapshot, sources
from tests.boxes import IDENTITY
from zmon.probe.plan_file import write_plan

UID = IDENTITY.run_uid


def test_plan_is_sent_once_and_again_when_it_changes(live, ask):
    box = live(world_size=2)

    async def scenario(client):
        assert ((before := await snapshot(client)).plans, before.plans_version) == ({}, "")
        write_plan(box.path, UID, 2, [{"lookups": 1}, {"lookups": 2}], {})

        async def plans_version():
            return (await snapshot(client)).plans_version

        version = await poll(plans_version)
        assert (await snapshot(client)).plans[UID].lookups == (1, 2)
        again = await snapshot(client, f"?plans={version}")
        assert (again.plans, again.plans_version) == ({}, version)
        write_plan(box.path, UID, 2, [{"lookups": 3}, {"lookups": 4}], {})

        async def changed_plan():
            return (await snapshot(client, f"?plans={version}")).plans

        assert (await poll(changed_plan))[UID].lookups == (3, 4)

    ask(scenario)


def test_invalid_plan_is_reported_with_the_boxes_and_hides_no_rank(live, ask):
    live().path.with_name("plan.json").write_text("to be done")

    async def scenario(client):
        async def dropped():
            return (await sources(client)).get("boxes", {}).get("dropped")

        (line,) = await poll(dropped)
        assert "plan.json is not a plan" in line
        report = await snapshot(client)
        assert (len(report.ranks), report.plans) == (1, {})

    ask(scenario)
