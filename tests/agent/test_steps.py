"""Tests of the step log of the agent. A log that cannot be written is down, and recovers once it can be written."""

import shutil

from tests.agent.agent_client import get_json, get_metrics, get_snapshot, poll, source_statuses
from tests.build import JOB
from zmon.steplog import read_runs


def steps_of(data):
    """Return the step numbers on disk, by rank."""
    runs, _ = read_runs(data / "steps" / JOB)
    return {run.run.rank: [step for chunk in run.chunks() for step in chunk.steps.column("step")] for run in runs}


def test_last_steps_of_a_rank_that_just_ended_are_written(make_live_box, run_scenario, tmp_path_factory):
    data = tmp_path_factory.mktemp("data")
    box = make_live_box()
    box.steps(3)

    async def scenario(client):
        async def written(number):
            return (data / "steps").exists() and len(steps_of(data).get(0, ())) == number

        assert await poll(lambda: written(3))
        box.steps(4)
        box.process.end()
        shutil.rmtree(box.path.parent)
        assert await poll(lambda: written(7))
        assert (await source_statuses(client))["steps"]["up"]

    run_scenario(scenario, data_dir=data, log_interval_seconds=0.05)


def test_unwritable_log_is_down_and_the_snapshot_still_has_its_ranks(make_live_box, run_scenario, tmp_path_factory):
    data = tmp_path_factory.mktemp("data")
    (data / "steps").write_text("in the way")
    make_live_box().steps(3)

    async def scenario(client):
        async def is_up(wanted):
            statuses = await source_statuses(client)
            return "steps" in statuses and statuses["steps"]["up"] is wanted

        assert (await get_snapshot(client)).ranks
        assert await poll(lambda: is_up(False))
        health = await get_json(client, "/healthz")
        assert health["healthy"]
        assert health["down"][0]["error"].startswith(f"cannot write the step log {data}/steps")
        assert 'zmon_source_up{host="node-a",source="steps"} 0.0' in await get_metrics(client)
        assert len((await get_snapshot(client)).ranks) == 1
        (data / "steps").unlink()
        assert await poll(lambda: is_up(True))
        assert steps_of(data) == {0: [1, 2, 3]}

    run_scenario(scenario, data_dir=data, log_interval_seconds=0.05)


def test_log_that_is_switched_off_writes_no_file(make_live_box, run_scenario, tmp_path_factory):
    data = tmp_path_factory.mktemp("data")
    make_live_box().steps(3)

    async def scenario(client):
        async def is_read():  # a source has a status from its first read on
            return {"boxes", "stderr"} <= set(await source_statuses(client)) and (await get_snapshot(client)).ranks

        assert await poll(is_read)
        assert "steps" not in await source_statuses(client)

    run_scenario(scenario, data_dir=data, without=frozenset({"steps"}))
    assert list(data.iterdir()) == []


def test_steps_since_the_last_append_are_written_when_the_agent_ends(make_live_box, run_scenario, tmp_path_factory):
    data = tmp_path_factory.mktemp("data")
    box = make_live_box()
    box.steps(3)

    async def scenario(client):
        async def started():
            return "steps" in await source_statuses(client) and (await get_snapshot(client)).ranks

        assert await poll(started)
        box.steps(4)

    run_scenario(scenario, data_dir=data, log_interval_seconds=1000.0)
    assert steps_of(data) == {0: [1, 2, 3, 4, 5, 6, 7]}
