"""Tests of the long poll `GET /api/v1/suspects`. It answers as soon as the suspects change, or at its timeout."""

import asyncio
import os
import signal
import time

from tests.agent.agent_client import get_json, poll
from tests.build import JOB


def test_long_poll_returns_at_once_on_a_new_suspect(make_live_box, run_scenario):
    box = make_live_box()
    box.steps(3)

    async def scenario(client):
        quiet = await get_json(client, "/api/v1/suspects")
        assert quiet["suspects"] == []
        waiting = asyncio.create_task(get_json(client, f"/api/v1/suspects?wait=30&since={quiet['version']}"))
        await asyncio.sleep(0.2)
        assert not waiting.done()
        stopped_at = time.monotonic()
        os.kill(box.process.pid, signal.SIGSTOP)
        answer = await waiting
        assert time.monotonic() - stopped_at < 2.0
        assert answer["suspects"] == [{"job_id": JOB, "rank": 0, "reason": "stopped"}]
        assert answer["version"] != quiet["version"]

    run_scenario(scenario)


def test_long_poll_without_a_version_returns_current_suspects(make_live_box, run_scenario):
    box = make_live_box()
    os.kill(box.process.pid, signal.SIGSTOP)

    async def scenario(client):
        async def suspected():
            return (await get_json(client, "/api/v1/suspects?wait=0"))["suspects"]

        assert await poll(suspected)
        begin = time.monotonic()
        assert (await get_json(client, "/api/v1/suspects?wait=30"))["suspects"]
        assert time.monotonic() - begin < 2.0

    run_scenario(scenario)


def test_long_poll_returns_at_its_timeout_without_suspects(make_live_box, run_scenario):
    make_live_box().steps(3)

    async def scenario(client):
        begin = time.monotonic()
        answer = await get_json(client, "/api/v1/suspects?wait=0.4")
        assert 0.35 < time.monotonic() - begin < 3.0
        assert answer["suspects"] == []

    run_scenario(scenario)


def test_long_poll_waits_no_longer_than_the_agent_allows(run_scenario):
    async def scenario(client):
        begin = time.monotonic()
        await get_json(client, "/api/v1/suspects?wait=3600")
        assert time.monotonic() - begin < 3.0

    run_scenario(scenario, max_wait_seconds=0.2)


def test_agent_that_a_signal_ends_says_so_to_those_who_wait(run_scenario):
    async def scenario(client):
        quiet = await get_json(client, "/api/v1/suspects")
        assert not quiet["leaving"]
        waiting = asyncio.create_task(get_json(client, f"/api/v1/suspects?wait=30&since={quiet['version']}"))
        await asyncio.sleep(0.2)
        assert not waiting.done()
        await client.server.app.shutdown()
        assert (await waiting)["leaving"]

    run_scenario(scenario)


def test_long_poll_answers_when_a_suspect_recovers(make_live_box, run_scenario):
    box = make_live_box()
    box.steps(3)
    os.kill(box.process.pid, signal.SIGSTOP)

    async def scenario(client):
        async def suspected():
            answer = await get_json(client, "/api/v1/suspects?wait=0")
            return answer if answer["suspects"] else None

        before = await poll(suspected)
        os.kill(box.process.pid, signal.SIGCONT)
        after = await get_json(client, f"/api/v1/suspects?wait=10&since={before['version']}")
        assert after["suspects"] == []

    run_scenario(scenario)
