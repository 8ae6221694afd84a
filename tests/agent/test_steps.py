"""Tests of the step log of the agent. A log that cannot be written is down, and recovers once it can be written."""

import shutil

import pytest

from tests.agent.agent_client import get_json, get_metrics, get_snapshot, is_up, poll, source_statuses
from tests.build import JOB
from zmon.steplog import read_runs


@pytest.fixture
def data(tmp_path_factory):
    """Return an empty data directory."""
    return tmp_path_factory.mktemp("data")


def steps_of(data):
    """Return the step numbers on disk, by rank."""
    if not (data / "steps").exists():
        return {}
    runs, _ = read_runs(data / "steps" / JOB)
    return {run.run.rank: [step for chunk in run.chunks() for step in chunk.steps.column("step")] for run in runs}


async def test_last_steps_of_a_rank_that_just_ended_are_written(make_live_box, serve, data):
    box = make_live_box()
    box.steps(3)
    async with serve(data_dir=data, log_interval_seconds=0.05) as client:
        assert await poll(lambda: steps_of(data) == {0: [1, 2, 3]})
        box.steps(4)
        box.holder.end()
        shutil.rmtree(box.path.parent)
        assert await poll(lambda: steps_of(data) == {0: [*range(1, 8)]})
        assert (await source_statuses(client))["steps"]["up"]


async def test_unwritable_log_is_down_and_the_snapshot_still_has_its_ranks(make_live_box, serve, data):
    (data / "steps").write_text("in the way")
    make_live_box().steps(3)
    async with serve(data_dir=data, log_interval_seconds=0.05) as client:
        assert (await get_snapshot(client)).ranks
        assert await is_up(client, "steps", up=False)
        health = await get_json(client, "/healthz")
        assert health["healthy"]
        assert health["down"][0]["error"].startswith(f"cannot write the step log {data}/steps")
        assert 'zmon_source_up{host="node-a",source="steps"} 0.0' in await get_metrics(client)
        assert len((await get_snapshot(client)).ranks) == 1
        (data / "steps").unlink()
        assert await is_up(client, "steps")
        assert steps_of(data) == {0: [1, 2, 3]}


async def test_log_that_is_switched_off_writes_no_file(make_live_box, serve, data):
    make_live_box().steps(3)
    async with serve(data_dir=data, without=frozenset({"steps"})) as client:
        assert await is_up(client, "boxes")
        assert await is_up(client, "stderr")
        assert (await get_snapshot(client)).ranks
        assert "steps" not in await source_statuses(client)
    assert list(data.iterdir()) == []


async def test_steps_since_the_last_append_are_written_when_the_agent_ends(make_live_box, serve, data):
    box = make_live_box()
    box.steps(3)
    async with serve(data_dir=data, log_interval_seconds=1000.0) as client:
        assert await is_up(client, "steps")
        assert (await get_snapshot(client)).ranks
        box.steps(4)
    assert steps_of(data) == {0: [*range(1, 8)]}
