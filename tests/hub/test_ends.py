"""Tests of a hub's record of ends: one for each launch, whatever ended it, also after a restart of the hub."""

from dataclasses import replace

import msgspec
import pytest

from tests.build import JOB, NOW, finished, rank_state, snapshot, step_record, terminated
from tests.hub.fakes import FakeAgent, failed, healthy, hub_over, poll
from zmon.hub import ends as ends_module
from zmon.hub.ends import FILE, MAX_AGE_SECONDS, Ends
from zmon.job.outcome import ended_launch
from zmon.notify import Recipient
from zmon.schema.ended_launch import EndedLaunch
from zmon.steplog.files import SteadyClock


def launch(ranks, attempt=0, began=1000.0, **changes):
    """Return these ranks as those of one launch of a launcher with restarts; it began `began` seconds ago."""
    fields = {"attempt": attempt, "open_seconds": began, "launch_id": "launch", "restart_count": attempt}
    return [replace(rank, run_uid=f"{attempt} {rank.rank}", **fields, **changes) for rank in ranks]


FINISHED = [finished(rank, 9.0) for rank in range(4)]
CANCELLED = [terminated(rank, 9.0) for rank in range(4)]
FAILED = failed(10.0)


async def ends(hub_client, query=""):
    """Return the ends that the query selects, newest first."""
    return (await hub_client.get(f"/api/v1/ends{query}"))["ends"]


@pytest.mark.parametrize(("ranks", "outcome"), [(FINISHED, "done"), (CANCELLED, "cancelled"), (FAILED, "failed")])
async def test_each_launch_that_ends_is_recorded_once(start_agent_and_hub, ranks, outcome):
    agent, hub_client = await start_agent_and_hub(*launch(healthy()))
    await hub_client.passes()
    assert await ends(hub_client) == []
    agent.ranks = launch(ranks)
    (end,) = await poll(lambda: ends(hub_client))
    await hub_client.passes(5)
    assert await ends(hub_client) == [end]
    assert (end["job_id"], end["outcome"], end["world_size"], end["hosts"]) == (JOB, outcome, 4, ["node-a"])
    assert await hub_client.metric(f'zmon_job_ends_total{{outcome="{outcome}"') == [1.0]
    agent.ranks = ()
    await hub_client.passes()
    assert await ends(hub_client) == [end]


async def test_restarted_hub_records_no_end_again(tmp_path):
    agent = FakeAgent(*launch(FAILED))
    async with agent.serve():
        async with hub_over(tmp_path, agent) as hub_client:
            (end,) = await poll(lambda: ends(hub_client))
        async with hub_over(tmp_path, agent) as hub_client:
            await hub_client.passes(5)
            assert await ends(hub_client) == [end]


async def test_end_while_the_hub_was_down_is_marked_late(start_hub):
    hub_client = await start_hub(FakeAgent(*launch([replace(rank, gone_seconds=400.0) for rank in FINISHED])))
    (end,) = await poll(lambda: ends(hub_client))
    assert end["recorded"] - end["ended"] == pytest.approx(400.0, abs=30.0)
    assert msgspec.convert(end, EndedLaunch).is_late


async def test_end_of_a_launch_has_the_restart_by_the_same_launcher(start_agent_and_hub):
    agent, hub_client = await start_agent_and_hub(*launch(FAILED, max_restarts=3))
    assert await poll(lambda: ends(hub_client))
    resumed = [rank_state(rank, step=61, steps=1, step_seconds_total=0.1) for rank in range(4)]
    agent.ranks = [*launch(FAILED), *launch(resumed, attempt=1, began=2.0)]

    async def ends_after_the_first_step():  # an incident may ask for the steps as well, and gets them instead
        agent.records = {JOB: {f"1 {rank}": [step_record(60)] for rank in range(4)}}
        return await ends(hub_client)

    (end,) = await poll(ends_after_the_first_step, until=lambda answer: (answer[0]["restart"] or {}).get("phases"))
    assert (end["attempt"], end["restart"]["attempt"], end["restart"]["first_step"]) == (0, 1, 60)
    agent.ranks = launch(FINISHED, attempt=1, began=2.0)
    newest, first = await poll(lambda: ends(hub_client), until=lambda answer: len(answer) == 2)
    assert (newest["outcome"], newest["attempt"], newest["restart"]) == ("done", 1, None)
    assert first["restart"] == {**end["restart"], "first_step": newest["first_step"]}


async def test_launch_that_the_next_one_followed_at_once_is_recorded(start_agent_and_hub):
    """The hub reports the fault of the first one, and sees the second one before the end of the first has settled."""
    agent, hub_client = await start_agent_and_hub(*launch(replace(rank, gone_seconds=2.0) for rank in FAILED))
    (finding,) = await poll(hub_client.findings)
    assert await ends(hub_client) == []
    agent.ranks = [*launch(FAILED), *launch(healthy(), attempt=1, began=2.0)]
    (end,) = await poll(lambda: ends(hub_client))
    assert (end["attempt"], end["outcome"], end["ranks"], end["finding"]) == (0, "failed", [2], finding["id"])


async def test_helper_process_has_no_end(start_hub):
    alone = {"world_size": 1, "steps": 0, "sequences": {}}
    hub_client = await start_hub(FakeAgent(finished(0, 9.0, **alone)))
    await hub_client.passes(5)
    assert await ends(hub_client) == []


async def test_ends_are_selected_by_job_time_or_number(start_hub):
    other_job = [replace(rank, job_id="other", run_uid=f"o {rank.rank}", gone_seconds=500.0) for rank in FINISHED]
    hub_client = await start_hub(FakeAgent(*launch(FAILED), *other_job))
    both = await poll(lambda: ends(hub_client), until=lambda answer: len(answer) == 2)
    assert [end["job_id"] for end in both] == [JOB, "other"]
    assert [end["job_id"] for end in await ends(hub_client, "?job_id=other")] == ["other"]
    assert [end["job_id"] for end in await ends(hub_client, "?seconds=100")] == [JOB]
    answer = await hub_client.get("/api/v1/ends?limit=1")
    assert ([end["job_id"] for end in answer["ends"]], answer["num_ends"]) == ([JOB], 2)


def finished_launch(number, time=NOW):
    """Return the snapshot of a launch that has finished; `number` is in its id."""
    return snapshot(*(replace(rank, launch_id=f"launch {number}") for rank in FINISHED), time=time)


def record(store, number, time=NOW):
    """Record the end of a launch; return the new ends."""
    store.update(finished_launch(number, time), fault=None, view=None)
    return store.take_new()


ALWAYS_STEADY = SteadyClock(hold_seconds=-1.0)


def test_ends_of_more_than_90_days_are_forgotten_while_the_clock_is_steady(tmp_path):
    for clock, left in ((SteadyClock(), 2), (ALWAYS_STEADY, 1)):
        store = Ends(tmp_path / FILE, clock)
        record(store, 1)
        record(store, 2, NOW + 86400.0)
        store.maintain(NOW + MAX_AGE_SECONDS + 1.0)
        assert len(store.all()) == left


def test_oldest_ends_beyond_the_maximum_are_forgotten(tmp_path, monkeypatch):
    monkeypatch.setattr(ends_module, "MAX_ENDS", 2)
    store = Ends(tmp_path / FILE)
    ids = [end.id for number in range(4) for end in record(store, number, NOW + number)]
    store.maintain(NOW)
    assert [end.id for end in store.all()] == [ids[3], ids[2]]


def test_lines_of_another_version_are_not_lost(tmp_path):
    path = tmp_path / FILE
    end = msgspec.structs.replace(ended_launch(finished_launch(1), fault=None, view=None), recorded=NOW)
    path.write_bytes(b'{"id": 7}\n' + msgspec.json.encode(end) + b'\n{"id": "cut o')
    store = Ends(path)
    record(store, 2, NOW + 1.0)
    assert [end.id for end in Ends(path).all()] == ["launch 2-0", "launch 1-0"]
    assert path.read_bytes().startswith(b'{"id": 7}\n')


def test_file_that_cannot_be_written_is_written_later(tmp_path):
    (tmp_path / FILE).mkdir()
    store = Ends(tmp_path / FILE)
    assert record(store, 1)
    assert "directory" in store.error
    (tmp_path / FILE).rmdir()
    store.maintain(NOW)
    assert store.error is None
    assert len(Ends(tmp_path / FILE).all()) == 1


async def test_recipients_are_told_about_each_end_once(tmp_path, endpoint):
    agent = FakeAgent(*launch(healthy()))
    recipients = (Recipient(url=f"json://127.0.0.1:{endpoint.port}/", name="ann"),)
    async with agent.serve(), hub_over(tmp_path, agent, recipients=recipients) as hub_client:
        await hub_client.passes()
        agent.ranks = launch(FAILED)
        assert await poll(lambda: ends(hub_client))
        assert await poll(lambda: endpoint.received)
        await hub_client.passes(5)
        assert await hub_client.metric("zmon_hub_notices_total") == [1.0]
        assert await hub_client.health("unsent") == {}
    async with agent.serve(), hub_over(tmp_path, agent, recipients=recipients) as hub_client:
        await hub_client.passes(5)
    (received,) = endpoint.received
    assert received["title"].startswith(f"{JOB} failed after")
