"""Tests of `GET /api/v1/snapshot`. Steps are sent only on request, and each step and each plan only once."""

import os

import pytest

from tests.agent.agent_client import get_json, get_snapshot, poll
from tests.boxes import IDENTITY
from tests.build import JOB
from tests.steps import records_of
from zmon.job.lease import Leases
from zmon.probe.plan_file import write_plan
from zmon.schema.api.packed import CONTENT_TYPE, Resting, unpack

UID = IDENTITY.run_uid
UIDS = {"old": "aa" * 16, "new": "bb" * 16}


def records(report, uid=UID):
    """Return the steps of a rank."""
    return [record for part in report.steps[JOB] for record in records_of(part).get(uid, [])]


async def test_records_are_sent_only_on_request_and_only_once(make_live_box, serve):
    box = make_live_box(seconds_ago=10)
    box.steps(10)
    async with serve() as client:
        assert (await get_snapshot(client)).steps == {}
        first = await get_snapshot(client, "?since=0")
        assert [record.step for record in records(first)] == list(range(1, 11))
        latest = await get_snapshot(client, f"?since={first.cursor}")
        assert records(latest) == []
        box.steps(3)  # on the shifted clock of this box, these steps end before the cursor
        box.clock.ns = 0  # no shift any more
        box.timeline.begin_step(None)
        box.timeline.end_step()
        new_steps = []

        async def has_last_step():
            nonlocal latest
            latest = await get_snapshot(client, f"?since={latest.cursor}")
            new_steps.extend(record.step for record in records(latest))
            return 14 in new_steps

        assert await poll(has_last_step)
        assert new_steps == [14]


async def test_last_steps_are_limited_by_the_request_and_by_the_agent(make_live_box, serve):
    make_live_box(seconds_ago=10).steps(10)
    async with serve(max_steps_per_rank=5) as client:
        report = await get_snapshot(client, "?since=0&last=3")
        assert [r.step for r in records(report)] == [8, 9, 10]
        assert len(records(await get_snapshot(client, "?since=0&last=1000000"))) == 5
        # `time` and `monotonic` are of the same moment, so the start of the record converts to unix time
        began = report.time - (report.monotonic - records(report)[-1].start)
        assert 9.0 < report.time - began < 20.0


@pytest.mark.parametrize("first", ["old", "new"])
async def test_records_of_a_restarted_rank_are_those_of_its_newest_start(make_live_box, serve, tmp_path_factory, first):
    """An agent that starts after the restart reads the boxes of both starts, in any order."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    boxes = {
        "old": make_live_box(attempt=0, start_unix=1e9, run_uid=UIDS["old"], seconds_ago=10),
        "new": make_live_box(attempt=1, start_unix=2e9, run_uid=UIDS["new"], seconds_ago=10),
    }
    boxes["old"].steps(4)
    boxes["new"].steps(7)
    for name, box in boxes.items():
        box.path.parent.rename(elsewhere / name)
    boxes["old"].holder.end()
    async with serve() as client:
        # One by one, so that the agent finds the boxes in this order.
        for number, name in enumerate((first, "new" if first == "old" else "old"), 1):
            (elsewhere / name).rename(boxes[name].path.parent)
            assert await poll(
                lambda: get_snapshot(client), accept=lambda report, number=number: len(report.ranks) >= number
            )
        report = await get_snapshot(client, "?since=0")
        assert {len(records(report, state.run_uid)) for state in report.ranks if state.attempt == 1} == {7}


async def test_request_for_new_records_does_not_read_old_ones(make_live_box, serve, monkeypatch):
    """The hub sends up to four requests a second; to read a thousand records per rank each time would take a core."""
    make_live_box(seconds_ago=60).steps(1500)
    reads, pread = [], os.pread
    async with serve(scan_interval_seconds=10.0) as client:
        first = await get_snapshot(client, "?since=0")
        assert len(records(first)) == 1024
        monkeypatch.setattr(os, "pread", lambda *arguments: reads.append(arguments) or pread(*arguments))
        await get_snapshot(client, f"?since={first.cursor}")
        assert len(reads) < 100


async def test_lease_is_the_configured_lease(make_live_box, serve):
    make_live_box()
    async with serve(leases=Leases(init_seconds=7200.0)) as client:
        assert (await get_snapshot(client)).ranks[0].lease_seconds == 7200.0  # the rank is still in `init`


async def test_job_is_in_one_shard(make_live_box, serve):
    make_live_box()
    async with serve() as client:
        reports = [await get_snapshot(client, f"?shard={index}/4") for index in range(4)]
        assert sorted(len(report.ranks) for report in reports) == [0, 0, 0, 1]


async def test_shard_that_cannot_be_is_refused_with_an_example(serve):
    async with serve() as client:
        assert "is no shard: write 0/4" in (await get_json(client, "/api/v1/snapshot?shard=4/4", status=400))["error"]


async def test_hub_of_the_same_version_gets_a_packed_report(make_live_box, serve):
    make_live_box(seconds_ago=10).steps(10)
    async with serve() as client:
        as_json = await get_snapshot(client, "?since=0&about=8")
        async with client.get("/api/v1/snapshot?since=0&about=8", headers={"Accept": CONTENT_TYPE}) as answer:
            assert answer.content_type == CONTENT_TYPE
            report, resting = unpack(await answer.read(), Resting())
        assert [r.run_uid for r in report.ranks] == [r.run_uid for r in as_json.ranks] == [UID]
        assert report.steps == as_json.steps
        assert len(records(report)) > 0
        async with client.get(f"/api/v1/snapshot?known={resting.version}", headers={"Accept": CONTENT_TYPE}) as answer:
            assert unpack(await answer.read(), resting)[1] is resting


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
