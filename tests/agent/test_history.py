"""Tests of requests for the history of all steps. They wait for each other, and nobody else waits for them."""

import asyncio
import itertools
import time

import pytest

from tests.agent.agent_client import get_json, get_metrics, get_snapshot
from zmon.agent.sources.boxes import Boxes
from zmon.agent.sources.rank_box import RankBox

NUM_RANKS = 4
READ_SECONDS = 0.03  # the time to read the steps of one rank in these tests: a scan is due after each


@pytest.fixture
def calls(monkeypatch):
    """Return the names of the calls that scan the boxes or read the history of a rank, in their order."""
    names = []

    def note(owner, name, seconds):
        method = getattr(owner, name)

        def noted(*arguments):
            names.append(name)
            time.sleep(seconds)
            return method(*arguments)

        monkeypatch.setattr(owner, name, noted)

    note(Boxes, "scan", 0.0)
    note(RankBox, "steps_ended", READ_SECONDS)
    return names


async def test_histories_delay_neither_scans_nor_snapshots_nor_metrics(make_live_box, serve, calls):
    for rank in range(NUM_RANKS):
        make_live_box(rank, run_uid=f"{rank:032x}").steps(3)
    async with serve() as client:
        assert len((await get_snapshot(client)).ranks) == NUM_RANKS
        histories = [asyncio.create_task(get_snapshot(client, f"?since={n}")) for n in range(12)]
        for number in range(3):
            report = await get_snapshot(client, f"?since={number}&about=8")
            assert len(report.steps["job"][0].run_uids) == NUM_RANKS
            assert 'rank="3"' in await get_metrics(client)
            assert (await get_json(client, "/api/v1/suspects"))["suspects"] == []
        assert not histories[-1].done()
        assert [len(report.steps["job"]) for report in await asyncio.gather(*histories)] == [NUM_RANKS] * 12
    in_a_row = [len([*group]) for name, group in itertools.groupby(calls) if name == "steps_ended"]
    assert max(in_a_row) < NUM_RANKS  # no history is read as a whole between two scans


async def test_large_about_is_a_history_and_is_bounded(make_live_box, serve):
    make_live_box().steps(50)
    async with serve(max_steps_per_rank=10) as client:
        report = await get_snapshot(client, "?since=0&about=1000000000")
        assert report.steps["job"][0].num_rows <= 20  # `about` is not exact
