"""Tests of a hub's record of ended jobs: it outlives boxes, agents and the hub."""

from dataclasses import replace

import pytest

from tests.build import JOB, NOW, finding, finished, rank_state, snapshot, terminated
from tests.hub.fakes import FakeAgent, failed, healthy, hub_over, poll
from tests.job.test_ended_job import VIEW
from zmon.hub import ended_jobs
from zmon.hub.ended_jobs import EndedJobs
from zmon.steplog.files import SteadyClock

FAILED = failed(open_seconds=1000.0)


def launch(number, ranks):
    """Return these ranks as those of the launch with this number, by a launcher that has restarts left."""
    fields = {"open_seconds": 1000.0 - 100 * number, "attempt": number, "restart_count": number, "max_restarts": 20}
    return [replace(rank, run_uid=f"launch {number} of {rank.rank}", **fields) for rank in ranks]


async def ended(hub_client):
    """Return the end of the only job; None if there is no job yet."""
    return next((job["ended"] for job in await hub_client.jobs()), None)


STARTING = [rank_state(rank, activity="init", step=0, steps=0) for rank in range(4)]
RECOVERED = [rank_state(rank, step=900, steps=900, step_seconds_total=18.0) for rank in range(4)]


@pytest.mark.usefixtures("resolves_soon")
async def test_job_that_a_fault_ended_stays_after_its_boxes_are_pruned(start_agent_and_hub):
    agent, hub_client = await start_agent_and_hub(*FAILED)
    end = await poll(lambda: ended(hub_client))
    assert (end["cause"], end["ranks"], end["hosts"]) == ("rank_exited", [2], ["node-a"])
    assert "ValueError: bad batch 17" in end["summary"]
    agent.ranks = ()
    assert await poll(hub_client.no_findings)
    (job,) = await hub_client.jobs()
    assert (job["state"], job["ended"], job["findings"]) == ("exited", end, [])
    assert (job["step_seconds"], job["samples_per_second"]) == (None, None)
    assert (job["headline"]["word"], job["headline"]["finding"]) == ("FAILED", end["finding"])
    assert await hub_client.metric("zmon_finding{") == []  # the page ends
    assert await hub_client.metric("zmon_job_info") == []


async def test_restarted_hub_shows_an_end_from_before_the_first_start(tmp_path):
    """The boxes stay for some minutes."""
    agent = FakeAgent(*(replace(rank, gone_seconds=500.0) for rank in FAILED))
    async with agent.serve():
        async with hub_over(tmp_path, agent) as hub_client:
            end = await poll(lambda: ended(hub_client))
            assert end["ranks"] == [2]
        agent.ranks = ()
        async with hub_over(tmp_path, agent) as hub_client:
            assert await ended(hub_client) == end


@pytest.mark.parametrize(
    "ranks",
    [[finished(rank) for rank in range(4)], [terminated(rank, 9.0) for rank in range(4)]],
    ids=["clean end", "cancelled"],
)
async def test_hub_records_no_end_without_a_fault(start_agent_and_hub, ranks):
    agent, hub_client = await start_agent_and_hub(*ranks)
    await hub_client.passes(5)
    assert await ended(hub_client) is None
    agent.ranks = ()
    await hub_client.passes()
    assert await hub_client.jobs() == []


async def test_fault_of_a_launch_that_the_next_one_followed_at_once_is_recorded(start_agent_and_hub):
    """The hub sees the ranks of the second launch before the end of the first one has settled."""
    agent, hub_client = await start_agent_and_hub(*launch(0, healthy()))
    await hub_client.passes()
    agent.ranks = [*launch(0, FAILED), *launch(1, STARTING)]
    await hub_client.passes(5)
    (snapshot_,) = hub_client.hub.snapshots
    assert [(end.attempt, end.ranks) for end in snapshot_.earlier_ends] == [(0, (2,))]


async def test_launch_that_recovered_is_not_recorded_again_from_its_old_boxes(start_agent_and_hub, tmp_path):
    agent, hub_client = await start_agent_and_hub(*FAILED)
    assert await poll(lambda: ended(hub_client))
    agent.ranks = [*FAILED, *launch(1, RECOVERED)]
    await hub_client.passes()
    (folder,) = tmp_path.rglob("ended")
    changed = folder.stat().st_mtime_ns
    await hub_client.passes(5)
    assert folder.stat().st_mtime_ns == changed
    assert hub_client.hub.snapshots[0].earlier_ends == ()


@pytest.mark.usefixtures("resolves_soon")
async def test_crash_loop_is_one_finding_across_a_restart_of_the_hub(tmp_path):
    agent = FakeAgent()

    async def play(hub_client, *numbers):
        """Fail these launches one after the other; return cause, severity and id of all findings open meanwhile."""
        active = []
        for number in numbers:
            for ranks in (launch(number, FAILED), launch(number + 1, STARTING)):
                agent.ranks = ranks
                await hub_client.passes(4)
                active += [(f["cause"], f["severity"], f["id"]) for f in await hub_client.findings()]
        return active

    async with agent.serve():
        async with hub_over(tmp_path, agent) as hub_client:
            assert {severity for _, severity, _ in await play(hub_client, 0, 1)} == {"warning"}
        async with hub_over(tmp_path, agent) as hub_client:
            looping = await play(hub_client, 2, 3)
            assert {(cause, severity) for cause, severity, _ in looping} == {("crash_loop", "critical")}
            assert len({id_ for _, _, id_ in looping}) == 1
            agent.ranks = launch(5, RECOVERED)
            assert await poll(hub_client.no_findings)
            assert await ended(hub_client) is None


def record_end(store, job_id, time=NOW):
    """Record that a job of four ranks failed."""
    ranks = [replace(rank, job_id=job_id) for rank in FAILED]
    fault = finding(job_id=job_id, cause="rank_exited")
    store.update(snapshot(*ranks, time=time), fault, fault, lambda: replace(VIEW, job_id=job_id))


def test_launch_after_the_clock_was_set_back_is_judged(tmp_path):
    store = EndedJobs(tmp_path / "ended")
    record_end(store, JOB)
    store.move_times(-3600.0)
    (end,) = EndedJobs(tmp_path / "ended").earlier_ends(snapshot(*launch(1, FAILED)))
    assert end.ended == pytest.approx(NOW - 3600.0, abs=10.0)
    assert store.ended(JOB, NOW - 3600.0).time == pytest.approx(NOW - 3600.0, abs=10.0)
    later = replace(snapshot(*launch(1, FAILED)), time=NOW - 3500.0)
    assert not store.is_judged(later)


def test_number_of_records_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(ended_jobs, "MAX_JOBS", 3)
    store = EndedJobs(tmp_path / "ended")
    for number in range(5):
        record_end(store, f"job-{number}", NOW + number)
    store.forget_old(NOW + 10, ())
    assert [view.job_id for view in store.views(NOW + 10, ())] == ["job-2", "job-3", "job-4"]
    assert len([*(tmp_path / "ended").iterdir()]) == 3


def test_records_are_deleted_after_a_day(tmp_path):
    store = EndedJobs(tmp_path / "ended", SteadyClock(hold_seconds=0.0))
    record_end(store, JOB)
    store.forget_old(NOW + 86_400 + 100, ())
    assert [*(tmp_path / "ended").iterdir()] == []


@pytest.mark.parametrize("content", [b"", b'{"job_id":"job","ends":[]', b"null", b'{"job_id":"other"}'])
def test_damaged_record_is_left_out(tmp_path, content, caplog):
    store = EndedJobs(tmp_path / "ended")
    record_end(store, "good")
    (tmp_path / "ended" / "job.json").write_bytes(content)
    assert [view.job_id for view in EndedJobs(tmp_path / "ended").views(NOW, ())] == ["good"]
    assert "job.json" in caplog.text


def test_record_is_readable_by_its_owner_only(tmp_path):
    record_end(EndedJobs(tmp_path / "ended"), JOB)
    assert (tmp_path / "ended").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "ended" / f"{JOB}.json").stat().st_mode & 0o777 == 0o600
