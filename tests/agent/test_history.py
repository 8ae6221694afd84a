"""Tests of requests for the history of all steps. They wait for each other, and nobody else waits for them."""

import asyncio
import time

import msgspec
import pytest

from tests.agent.agent_client import get_json, get_metrics, get_snapshot
from zmon.agent.sources.rank_box import RankBox
from zmon.schema.api.agent import AgentReport

SLOW_SECONDS = 0.15  # the time to read the history of one rank in these tests


@pytest.fixture
def four_slow_ranks(make_live_box, monkeypatch):
    """Make the boxes of four ranks, and each read of the history of a rank slow."""
    read = RankBox.steps_ended

    def slowly(*arguments):
        time.sleep(SLOW_SECONDS)
        return read(*arguments)

    monkeypatch.setattr(RankBox, "steps_ended", slowly)
    for rank in range(4):
        make_live_box(rank, run_uid=f"{rank:032x}").steps(3)


@pytest.mark.slow  # each run has test_scans_go_on_while_histories_are_read, which is quick
@pytest.mark.usefixtures("four_slow_ranks")
async def test_sixteen_histories_delay_neither_snapshots_nor_metrics(serve):
    async with serve() as client:
        assert len((await get_snapshot(client)).ranks) == 4
        histories = [asyncio.create_task(get_json(client, f"/api/v1/snapshot?since={n}")) for n in range(16)]
        await asyncio.sleep(0.2)
        for number in range(5):
            report = await get_snapshot(client, f"?since={number}&about=8")
            assert len(report.steps["job"][0].run_uids) == 4
            assert 'rank="3"' in await get_metrics(client)
            assert (await get_json(client, "/api/v1/suspects"))["suspects"] == []
        assert not histories[-1].done()
        reports = [msgspec.convert(answer, AgentReport) for answer in await asyncio.gather(*histories)]
        assert all(len(report.steps["job"]) == 4 for report in reports)


@pytest.mark.usefixtures("four_slow_ranks")
async def test_scans_go_on_while_histories_are_read(serve):
    async with serve(scan_timeout_seconds=4 * SLOW_SECONDS) as client:  # sixteen ranks are read meanwhile
        assert len((await get_snapshot(client)).ranks) == 4
        histories = [asyncio.create_task(get_snapshot(client, "?since=0")) for _ in range(4)]
        while not all(task.done() for task in histories):
            assert (await get_json(client, "/healthz"))["healthy"]
            await asyncio.sleep(0.05)


async def test_large_about_is_a_history_and_is_bounded(make_live_box, serve):
    make_live_box().steps(50)
    async with serve(max_steps_per_rank=10) as client:
        report = await get_snapshot(client, "?since=0&about=1000000000")
        assert report.steps["job"][0].num_rows <= 20
