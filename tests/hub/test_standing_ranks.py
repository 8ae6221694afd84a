"""Tests of looks: the hub asks again and again what a rank is doing, while others wait for it."""

from dataclasses import replace

from tests.build import rank_state, waiting
from tests.hub.fakes import FakeAgent, healthy, poll

STACK = 'Thread 7 (idle): "MainThread"\n    step (/home/ann/train.py:40)\n'
IDLE = {
    "cpu_seconds": 3.0, "read_bytes": 10, "written_bytes": 10, "network_bytes": 10, "processes": [7], "switches": 5,
    "waits": ["futex_wait_queue"],
}  # fmt: skip


def stall(seconds):
    """Return ranks that wait for rank 2, within their lease."""
    times = {"step_seconds": seconds, "state_seconds": seconds, "lease_seconds": 30.0, "overdue_seconds": 0.0}
    return [rank_state(2, **times), *(waiting(rank, seconds, **times) for rank in (0, 1, 3))]


async def test_rank_that_waits_for_a_lock_is_reported_before_its_lease_ends(start_hub):
    agent = FakeAgent(*stall(11.0), stack=STACK, work=IDLE)
    hub_client = await start_hub(agent)
    (finding,) = await poll(hub_client.findings)
    assert (finding["cause"], finding["severity"], finding["ranks"]) == ("compute_hang", "warning", [2])
    assert "rank 2 stands in step() at train.py:40" in finding["summary"]
    assert set(agent.looks()) == {2, 0}  # rank 0 is one of those that wait for it


async def test_rank_of_which_nothing_is_known_is_not_reported(start_agent_and_hub):
    agent, hub_client = await start_agent_and_hub(*stall(11.0))
    assert await poll(lambda: len(agent.looks()) > 2)
    assert not await hub_client.findings()


async def test_looks_end_when_the_job_goes_on(start_hub):
    agent = FakeAgent(*stall(11.0), stack=STACK, work=IDLE)
    hub_client = await start_hub(agent)
    assert await poll(hub_client.findings)
    agent.ranks = healthy()
    await hub_client.passes(2)
    assert not hub_client.hub.snapshots[0].standing
    before = len(agent.looks())
    await hub_client.passes(5)
    assert len(agent.looks()) == before


def between_steps(seconds):
    """Return ranks past their lease that wait for rank 2, which is between two steps."""
    times = {"step_seconds": seconds, "state_seconds": seconds, "lease_seconds": 1.5, "overdue_seconds": seconds - 1.5}
    return [rank_state(2, phase="other", **times), *(waiting(rank, phase="other", **times) for rank in (0, 1, 3))]


OUTSIDE_LOOPS = {"stack": STACK, "work": {**IDLE, "waits": [""]}, "outside_loops": True}  # the answers of the agent


def outside_loops(hub_client):
    """Return the ranks outside their loops in the only job that the hub knows."""
    return next((job.outside_loops for job in hub_client.hub.snapshots), frozenset())


async def test_job_whose_ranks_have_left_their_loops_is_not_reported(start_hub):
    agent = FakeAgent(*between_steps(2.0), **OUTSIDE_LOOPS)
    hub_client = await start_hub(agent)
    assert await poll(lambda: outside_loops(hub_client) == {0, 2})
    agent.ranks = between_steps(40.0)
    await hub_client.passes(3)
    assert not await hub_client.findings()
    agent.outside_loops = False  # it has begun another loop, and hangs there
    (finding,) = await poll(hub_client.findings)
    assert (finding["cause"], finding["severity"]) == ("compute_hang", "critical")


async def test_rank_that_ends_a_step_is_in_its_loop_again(start_hub):
    agent = FakeAgent(*between_steps(2.0), **OUTSIDE_LOOPS)
    hub_client = await start_hub(agent)
    assert await poll(lambda: outside_loops(hub_client))
    agent.outside_loops = None
    agent.ranks = [replace(r, steps=r.steps + 1) for r in between_steps(0.1)]
    await hub_client.passes(2)
    assert not outside_loops(hub_client)


async def test_new_hub_reports_no_job_that_has_left_its_loops_long_ago(start_hub):
    agent = FakeAgent(*between_steps(40.0), **OUTSIDE_LOOPS)
    hub_client = await start_hub(agent)
    findings = []

    async def are_outside():
        findings.extend(await hub_client.findings())
        return outside_loops(hub_client) == {0, 2}

    assert await poll(are_outside)
    await hub_client.passes(3)
    assert not findings
    assert not await hub_client.findings()
