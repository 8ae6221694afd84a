"""Two users of a hub's machine: what a job prints is not in the answers to the user of another job."""

import asyncio
from dataclasses import replace

import pytest

from tests.hostile.users import ANN, BOB, get_as, needs_root
from tests.hub.fakes import FakeAgent, frozen, healthy, hub_over, poll

pytestmark = needs_root


@pytest.fixture
def agent():
    """An agent that reports a frozen rank of a job of ANN."""
    return FakeAgent(*(replace(state, owner=ANN) for state in frozen()))


async def finding_with_stacks(hub_client):
    """Return the finding about the frozen rank, once the hub has gathered its stacks."""

    async def gathered():
        return [finding for finding in await hub_client.findings() if "stacks" in finding["evidence"]]

    (finding,) = await poll(gathered)
    return finding


async def findings_for(uid, hub_client, query):
    """Return status and findings of the hub's answer to a process of this user."""
    base = str(hub_client.client.make_url("")).rstrip("/")
    status, answer = await asyncio.to_thread(get_as, uid, f"{base}/api/v1/findings{query}")
    return status, answer["findings"]


@pytest.mark.parametrize(("uid", "readable"), [(0, True), (ANN, True), (BOB, False)], ids=["root", "own", "other"])
async def test_only_root_and_the_user_of_the_job_get_its_stacks_and_stderr(agent, tmp_path, uid, readable):
    async with agent.serve(), hub_over(tmp_path, agent) as hub_client:
        finding = await finding_with_stacks(hub_client)
        status, (received,) = await findings_for(uid, hub_client, "?active=1")
        assert (status, received["summary"]) == (200, finding["summary"])
        assert {name for name in ("stacks", "stderr_tail") if name in received["evidence"]} == (
            {"stacks", "stderr_tail"} if readable else set()
        )
        assert ("stacks" in received["evidence"].get("dropped", ())) is not readable


async def test_user_who_takes_the_job_id_of_an_ended_job_does_not_get_its_stderr(agent, tmp_path):
    async with agent.serve(), hub_over(tmp_path, agent) as hub_client:
        await finding_with_stacks(hub_client)
        agent.ranks = [replace(state, owner=BOB, run_uid=f"bob-{state.rank}") for state in healthy()]
        assert await poll(hub_client.no_findings)
        for uid, readable in ((BOB, False), (ANN, True)):
            _, (received,) = await findings_for(uid, hub_client, "")
            assert ("stderr_tail" in received["evidence"]) is readable
