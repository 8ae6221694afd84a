"""Tests of the long poll `GET /api/v1/suspects`. It answers as soon as the suspects change, or at its timeout."""

import asyncio
import os
import signal
import time

import pytest

from tests.agent.agent_client import get_json, poll
from tests.build import JOB

SUSPECTS = "/api/v1/suspects"


async def begin_long_poll(client):
    """Return the answer now, and a task that waits for the next answer."""
    now = await get_json(client, SUSPECTS)
    next_answer = asyncio.create_task(get_json(client, f"{SUSPECTS}?wait=30&since={now['version']}"))
    await asyncio.sleep(0.2)  # an agent that does not wait answers sooner
    assert not next_answer.done()
    return now, next_answer


async def test_long_poll_returns_at_once_on_a_new_suspect_and_when_it_recovers(make_live_box, serve):
    box = make_live_box()
    box.steps(3)
    async with serve() as client:
        quiet, next_answer = await begin_long_poll(client)
        assert quiet["suspects"] == []
        stopped_at = time.monotonic()
        os.kill(box.holder.pid, signal.SIGSTOP)
        answer = await next_answer
        assert time.monotonic() - stopped_at < 2.0
        assert answer["suspects"] == [{"job_id": JOB, "rank": 0, "reason": "stopped"}]
        assert answer["version"] != quiet["version"]
        os.kill(box.holder.pid, signal.SIGCONT)
        assert (await get_json(client, f"{SUSPECTS}?wait=10&since={answer['version']}"))["suspects"] == []


async def test_long_poll_without_a_version_returns_current_suspects(make_live_box, serve):
    box = make_live_box()
    os.kill(box.holder.pid, signal.SIGSTOP)
    async with serve() as client:
        assert await poll(
            lambda: get_json(client, f"{SUSPECTS}?wait=0"), accept=lambda answer: bool(answer["suspects"])
        )
        begin = time.monotonic()
        assert (await get_json(client, f"{SUSPECTS}?wait=30"))["suspects"]
        assert time.monotonic() - begin < 2.0


@pytest.mark.parametrize(
    ("wait", "config", "least"),
    [(0.4, {}, 0.35), (3600, {"max_wait_seconds": 0.2}, 0.15)],
    ids=["of the request", "of the agent"],
)
async def test_long_poll_returns_at_its_timeout_without_suspects(make_live_box, serve, wait, config, least):
    make_live_box().steps(3)
    async with serve(**config) as client:
        begin = time.monotonic()
        answer = await get_json(client, f"{SUSPECTS}?wait={wait}")
        assert least < time.monotonic() - begin < 3.0
        assert answer["suspects"] == []


async def test_wait_that_is_no_number_is_refused(serve):
    async with serve() as client:
        error = (await get_json(client, f"{SUSPECTS}?wait=nan", status=400))["error"]
        assert error == "wait='nan' is not a number"


async def test_agent_that_shuts_down_says_so_to_those_who_wait(serve):
    async with serve() as client:
        quiet, next_answer = await begin_long_poll(client)
        assert not quiet["leaving"]
        await client.server.app.shutdown()
        assert (await next_answer)["leaving"]
