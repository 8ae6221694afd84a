"""Two users of a hub's machine: what a job prints is not in the answers to the user of another job."""

import asyncio
from dataclasses import replace

import pytest

from tests.hostile.users import ANN, BOB, get_as, needs_root
from tests.hub.fakes import FakeAgent, contexts, frozen, healthy, hub_over, poll

pytestmark = needs_root


@pytest.mark.parametrize(("uid", "readable"), [(0, True), (ANN, True), (BOB, False)], ids=["root", "own", "other"])
async def test_findings_and_incidents_have_stacks_for_the_user_of_the_job(tmp_path, uid, readable):
    agent = FakeAgent(*(replace(state, owner=ANN) for state in frozen()))
    async with contexts([agent]), hub_over(tmp_path, agent) as hub_client:

        async def gathered():
            findings = await hub_client.findings()
            return findings and "stacks" in findings[0]["evidence"] and findings[0]

        finding = await poll(gathered)
        base = str(hub_client.client.make_url("")).rstrip("/")
        status, answer = await asyncio.to_thread(get_as, uid, f"{base}/api/v1/findings?active=1")
        (received,) = answer["findings"]
        assert (status, received["summary"]) == (200, finding["summary"])
        assert {name for name in ("stacks", "stderr_tail") if name in received["evidence"]} == (
            {"stacks", "stderr_tail"} if readable else set()
        )
        assert ("stacks" in received["evidence"].get("dropped", ())) is not readable


async def test_user_who_takes_the_job_id_of_an_ended_job_does_not_get_its_stderr(tmp_path):
    agent = FakeAgent(*(replace(state, owner=ANN) for state in frozen()))
    async with contexts([agent]), hub_over(tmp_path, agent) as hub_client:

        async def gathered():
            findings = await hub_client.findings()
            return findings and "stacks" in findings[0]["evidence"]

        async def resolved():
            return not await hub_client.findings()  # the open ones

        await poll(gathered)
        agent.ranks = [replace(state, owner=BOB, run_uid=f"bob-{state.rank}") for state in healthy()]
        await poll(resolved)
        base = str(hub_client.client.make_url("")).rstrip("/")
        for uid, readable in ((BOB, False), (ANN, True)):
            _, answer = await asyncio.to_thread(get_as, uid, f"{base}/api/v1/findings")
            assert ("stderr_tail" in answer["findings"][0]["evidence"]) is readable
