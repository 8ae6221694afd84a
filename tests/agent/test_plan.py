"""Tests of the trainer's plan in snapshots. A plan is sent once, and again after it has changed."""

from tests.agent.agent_client import get_snapshot, poll, source_statuses
from tests.boxes import IDENTITY
from zmon.probe.plan_file import write_plan

UID = IDENTITY.run_uid


async def test_plan_is_sent_once_and_again_after_a_change(make_live_box, serve):
    box = make_live_box(world_size=2)
    async with serve() as client:
        before = await get_snapshot(client)
        assert (before.plans, before.plans_version) == ({}, "")
        write_plan(box.path, UID, 2, [{"lookups": 1}, {"lookups": 2}], {})
        first = await poll(lambda: get_snapshot(client), accept=lambda report: report.plans_version)
        assert first.plans[UID].lookups == (1, 2)
        version = first.plans_version
        again = await get_snapshot(client, f"?plans={version}")
        assert (again.plans, again.plans_version) == ({}, version)
        write_plan(box.path, UID, 2, [{"lookups": 3}, {"lookups": 4}], {})
        changed = await poll(lambda: get_snapshot(client, f"?plans={version}"), accept=lambda report: report.plans)
        assert changed.plans[UID].lookups == (3, 4)


async def test_invalid_plan_is_reported_by_the_boxes_source_and_hides_no_rank(make_live_box, serve):
    make_live_box().path.with_name("plan.json").write_text("to be done")
    async with serve() as client:
        statuses = await poll(
            lambda: source_statuses(client), accept=lambda by_name: by_name.get("boxes", {}).get("dropped")
        )
        (line,) = statuses["boxes"]["dropped"]
        assert "plan.json is not a plan" in line
        report = await get_snapshot(client)
        assert (len(report.ranks), report.plans) == (1, {})
