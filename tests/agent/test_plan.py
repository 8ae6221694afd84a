"""Tests of the trainer's plan in snapshots. A plan is sent once, and again after it has changed."""

from tests.agent.agent_client import get_snapshot, poll, source_statuses
from tests.boxes import IDENTITY
from zmon.probe.plan_file import write_plan

UID = IDENTITY.run_uid


def test_plan_is_sent_once_and_again_after_a_change(make_live_box, run_scenario):
    box = make_live_box(world_size=2)

    async def scenario(client):
        assert ((before := await get_snapshot(client)).plans, before.plans_version) == ({}, "")
        write_plan(box.path, UID, 2, [{"lookups": 1}, {"lookups": 2}], {})

        async def plans_version():
            return (await get_snapshot(client)).plans_version

        version = await poll(plans_version)
        assert (await get_snapshot(client)).plans[UID].lookups == (1, 2)
        again = await get_snapshot(client, f"?plans={version}")
        assert (again.plans, again.plans_version) == ({}, version)
        write_plan(box.path, UID, 2, [{"lookups": 3}, {"lookups": 4}], {})

        async def changed_plan():
            return (await get_snapshot(client, f"?plans={version}")).plans

        assert (await poll(changed_plan))[UID].lookups == (3, 4)

    run_scenario(scenario)


def test_invalid_plan_is_reported_by_the_boxes_source_and_hides_no_rank(make_live_box, run_scenario):
    make_live_box().path.with_name("plan.json").write_text("to be done")

    async def scenario(client):
        async def dropped():
            return (await source_statuses(client)).get("boxes", {}).get("dropped")

        (line,) = await poll(dropped)
        assert "plan.json is not a plan" in line
        report = await get_snapshot(client)
        assert (len(report.ranks), report.plans) == (1, {})

    run_scenario(scenario)
