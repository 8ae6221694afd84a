"""Tests of the job state: steps and accounts of a job, from the records of its agents."""

from dataclasses import replace

import pytest

from tests.build import JOB, flight, killed, pending, plan, rank_state, snapshot
from tests.detectors.stalls import STALL, inside, outside
from tests.hub.fakes import FakeAgent, frozen, healthy, step_records, two_agents
from zmon.detectors.coverage import Coverage
from zmon.hub.job_state import JobState
from zmon.hub.standing_observation import StandingObservation
from zmon.job.time_account import Account
from zmon.metrics import STEP_HISTOGRAM
from zmon.schema.host import HostSample, HostWindow, TcpSample

COUNT = f"{STEP_HISTOGRAM}_count"


async def test_time_of_each_step_is_in_the_account_once(start_agent_and_hub):
    agent, hub_client = await start_agent_and_hub(*healthy())
    await hub_client.passes(1)
    agent.records = step_records(1, 50)
    await hub_client.passes()
    assert await hub_client.metric(COUNT) == [50.0]
    assert await hub_client.metric(f"{STEP_HISTOGRAM}_sum") == [pytest.approx(1.0)]
    assert sum(await hub_client.metric("zmon_job_time_seconds_total")) == pytest.approx(1.0)
    assert sum(await hub_client.metric("zmon_job_gpu_seconds_total")) == pytest.approx(4 * 1.0)
    assert await hub_client.metric("zmon_job_goodput_ratio") == [1.0]
    (job,) = await hub_client.jobs()
    assert job["step_seconds"] == pytest.approx(0.020)
    assert job["samples_per_second"] == pytest.approx(4 * 32 / 0.020)


async def test_hub_asks_only_for_steps_since_its_start(start_agent_and_hub):
    agent, hub_client = await start_agent_and_hub(*healthy())
    await hub_client.passes(4)
    queries = [path.partition("?")[2] for path in agent.requests if "snapshot" in path]
    queries = [query.partition("&known=")[0] for query in queries[:4]]
    assert queries == ["about=8", "since=1&about=8", "since=2&about=8", "since=3&about=8"]


async def test_account_does_not_fall_while_the_host_of_rank_0_is_unwatched(start_hub):
    """A counter that falls to zero and comes back is counted twice by `rate`."""
    node_a, node_b = two_agents()
    hub_client = await start_hub(node_a, node_b)
    await hub_client.passes(1)
    node_a.records, node_b.records = step_records(1, 50, (0, 1)), step_records(1, 50, (2, 3))
    await hub_client.passes()
    assert await hub_client.metric(COUNT) == [50.0]
    node_a.down = True
    await hub_client.passes()
    assert await hub_client.metric(COUNT) in ([50.0], [])  # `rate` ignores a gap


async def test_finished_job_that_runs_again_has_a_new_account(start_agent_and_hub):
    done = [replace(rank, activity="done", between_seconds={"init": 5.0}, open_seconds=1.0) for rank in healthy()]
    agent, hub_client = await start_agent_and_hub(*done)
    await hub_client.passes()
    fields = {"attempt": 1, "start": 1.9e9, "between_seconds": {"init": 2.0}}
    again = [rank_state(rank, run_uid=f"again-{rank}", **fields) for rank in range(4)]
    agent.ranks = again[:1]
    await hub_client.passes()
    agent.ranks = again
    await hub_client.passes()
    (job,) = await hub_client.jobs()
    assert (job["time"]["init"], "restart" in job["time"]) == (2.0, False)


async def test_relaunch_on_fewer_ranks_ignores_the_old_boxes(start_agent_and_hub):
    """Both have the same job id and attempt, but the boxes of the first launch are not part of the second."""
    agent, hub_client = await start_agent_and_hub(*healthy())
    await hub_client.passes(1)
    agent.records = step_records(1, 50)
    await hub_client.passes()
    old = [killed(r, run_uid=f"uid-{r}") for r in range(4)]
    agent.ranks = [*old, *(rank_state(r, world_size=2, run_uid=f"again-{r}", start=1.9e9) for r in range(2))]
    agent.records = step_records(1, 7, range(2), uid="again-{}")
    await hub_client.passes()
    assert await hub_client.metric(COUNT) == [57.0]
    assert (await hub_client.jobs())[0]["world_size"] == 2


async def test_error_on_a_job_does_not_affect_other_jobs(start_hub, monkeypatch):
    odd = [rank_state(rank, job_id="odd", run_uid=f"odd-{rank}") for rank in range(4)]
    add = JobState.add

    def failing(state, snapshot, *rest):
        if snapshot.job_id == "odd":
            raise RuntimeError("what is this?")
        return add(state, snapshot, *rest)

    monkeypatch.setattr(JobState, "add", failing)
    hub_client = await start_hub(FakeAgent(*frozen(), *odd))
    await hub_client.passes()
    assert [f["job_id"] for f in await hub_client.findings()] == [JOB]
    assert await hub_client.health("failed") == {"history": "RuntimeError: what is this?"}


async def test_error_of_a_detector_is_cleared_after_a_success(start_hub, monkeypatch):
    def detect(self, snapshot):
        raise ZeroDivisionError("division by zero")

    async def failed(hub_client):
        detectors = (await hub_client.get("/api/v1/detectors"))["detectors"]
        return {detector["name"]: detector["failed"] for detector in detectors}["coverage"]

    hub_client = await start_hub(FakeAgent(*healthy()))
    with monkeypatch.context() as patch:
        patch.setattr(Coverage, "detect", detect)
        await hub_client.passes()
        assert await failed(hub_client) == "ZeroDivisionError: division by zero"
    await hub_client.passes()
    assert await failed(hub_client) is None


async def test_steps_are_requested_no_more_often_during_a_stall(start_agent_and_hub):
    """More requests would split the same seconds into more records, and the stored steps would span too little."""
    agent, hub_client = await start_agent_and_hub(*frozen(), interval_seconds=30.0)
    await hub_client.passes(6)
    queries = [path for path in agent.requests if "snapshot" in path]
    assert len([path for path in queries if "since" in path]) < len(queries) / 2


def test_addresses_of_a_host_stay_known_while_its_agent_is_silent():
    def window(host, *addresses):
        return HostWindow(host, 60.0, HostSample(), HostSample(tcp=TcpSample(0, (), addresses)))

    ranks = healthy()
    state = JobState(set(), 4, Account(JOB))
    state.add(snapshot(*ranks, hardware=[window("node-a", "10.0.0.1"), window("node-b", "10.0.0.2")]), [])
    later = state.add(snapshot(*ranks, hardware=[window("node-a")]), [])  # its ranks are gone, and their connections
    assert later.addresses == {"node-a": ("10.0.0.1",), "node-b": ("10.0.0.2",)}


async def test_planned_steps_reach_the_view_and_the_metrics(start_hub):
    agent = FakeAgent(*healthy(), plans={"uid-0": plan(steps=400)}, plans_version="first")
    hub_client = await start_hub(agent)
    await hub_client.passes()
    (job,) = await hub_client.jobs()
    assert (job["step"], job["progress"]["planned_steps"], job["progress"]["left"]) == (100, 400, None)
    assert await hub_client.metric("zmon_job_progress_ratio") == [0.25]


async def test_job_without_planned_steps_has_no_progress(start_hub):
    hub_client = await start_hub(FakeAgent(*healthy()))
    await hub_client.passes()
    (job,) = await hub_client.jobs()
    assert job["progress"] is None
    assert await hub_client.metric("zmon_job_progress_ratio") == []


# The flight records of a rank that waits in collective 301, and of one that has not entered it.
WAITS = replace(flight(), pending=(pending(301, "gloo:all_reduce", "gloo:0"),), last={"gloo:0": 300})
LATE = replace(flight(), last={"gloo:0": 300})


def after_the_late_rank(*ranks):
    """Return the snapshot of these ranks, whose flight records were gathered while they waited in 301 for rank 1."""
    before = {r: inside(r, sequence=301, sequences={"0": 301}) for r in (0, 2, 3)} | {1: outside(1)}
    state = JobState(set(), 4, Account(JOB))
    state.flights = {r: StandingObservation.of(before[r], LATE if r == 1 else WAITS) for r in range(4)}
    return state.add(snapshot(*(ranks or before.values())), [])


def test_records_of_an_earlier_collective_of_the_step_hide_no_hang():
    """Rank 1 was late in 301, and now waits in 302 with the others: for rank 2, which hangs between the two."""
    rest = [inside(r, sequence=302, sequences={"0": 302}) for r in (0, 1, 3)]
    now = after_the_late_rank(outside(2, sequences={"0": 301}), *rest)
    assert now.flights == {}
    (finding,) = STALL.detect(now)
    assert (finding.cause, finding.ranks) == ("compute_hang", (2,))


def test_rank_that_ended_with_a_collective_in_flight_had_waited():
    """Ranks 0 and 1 end; only rank 1 has a collective in flight. Rank 2 has one too, and lives."""
    before = [inside(r, sequence=301, sequences={"0": 301}) for r in (0, 1, 2)]
    in_flight = replace(WAITS, num_pending=1)
    state = JobState(set(), 3, Account(JOB))
    state.flights = {r: StandingObservation.of(before[r], in_flight if r else WAITS) for r in range(3)}
    assert state.add(snapshot(*before), []).waiters == frozenset()
    after = [*(replace(r, alive=False, gone_seconds=1.0) for r in before[:2]), before[2]]
    assert state.add(snapshot(*after), []).waiters == {1}
    state.flights = {}
    assert state.add(snapshot(*after), []).waiters == {1}


def test_records_of_ranks_that_stand_still_stay():
    now = after_the_late_rank()
    assert now.flights == {0: WAITS, 1: LATE, 2: WAITS, 3: WAITS}
    (finding,) = STALL.detect(now)
    assert (finding.cause, finding.ranks) == ("compute_hang", (1,))
