"""Tests that compare answers of the agent with goldens: names, types and values that other programs read."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from pathlib import Path

import pytest
from aiohttp.test_utils import TestClient, TestServer
from aiohttp.web import AppRunner, UnixSite

from tests.agent.agent_client import poll
from tests.build import JOB
from tests.golden.agent_scene import SECOND, Kernel, answer_of, bad_sources, ranks, sources, worker_server
from tests.golden.compare import GOLDEN, check_each, normalised
from zmon.agent import Agent, AgentConfig
from zmon.agent.evidence import gather
from zmon.agent.sources.boxes import Boxes
from zmon.agent.sources.stderr import StderrSource
from zmon.box.reader import BoxReader
from zmon.process import ExitWatch

SNAPSHOT, EVIDENCE = "/api/v1/snapshot", "/api/v1/evidence"
PATIENCE = 60.0  # seconds; a busy machine is not a failure
OFTEN, ONCE = 0.01, 3600.0  # seconds between two readings; errors are counted at each
PATHS = {
    "healthz": "/healthz",
    "snapshot": SNAPSHOT,
    "snapshot_since": f"{SNAPSHOT}?since=0",
    "snapshot_since_about": f"{SNAPSHOT}?since=0&about=4&job_id=other",
    "snapshot_since_last": f"{SNAPSHOT}?since=0&last=1&job_id={JOB}",
    "snapshot_of_no_job": f"{SNAPSHOT}?job_id=none",
    "snapshot_bad_argument": f"{SNAPSHOT}?since=x",
    "suspects": "/api/v1/suspects",
    "suspects_since": "/api/v1/suspects?wait=0.01&since=2",
    "suspects_bad_argument": "/api/v1/suspects?wait=x",
    "evidence": f"{EVIDENCE}/{JOB}/0",
    "evidence_without_stacks": f"{EVIDENCE}/{JOB}/1?stacks=0",
    "evidence_of_a_start": f"{EVIDENCE}/other/0?stacks=0&run={(b'o' * 16).hex()}",
    "evidence_of_another_start": f"{EVIDENCE}/other/0?run=00",
    "evidence_of_the_dead": f"{EVIDENCE}/{JOB}/3",
    "evidence_of_nobody": f"{EVIDENCE}/{JOB}/7",
    "evidence_of_no_number": f"{EVIDENCE}/{JOB}/x",
    "nothing": "/api/v1/nothing",
}
BAD = {"healthz_bad_sources": "/healthz", "snapshot_bad_sources": SNAPSHOT, "evidence_no_stderr": f"{EVIDENCE}/job/0"}
BLIND = {
    "healthz_blind": "/healthz",
    "snapshot_blind": SNAPSHOT,
    "suspects_blind": "/api/v1/suspects",
    "evidence_blind": f"{EVIDENCE}/{JOB}/0",
}


@pytest.fixture
def short_folder():
    """Yield a folder whose path is short enough for a socket."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def kernel(short_folder, stopped_clock, set_defaults, monkeypatch):
    """Return a scripted kernel, and make everything in the agent use it."""
    scripted = Kernel(short_folder / "proc")
    monkeypatch.setattr(time, "monotonic_ns", lambda: scripted.ns)
    set_defaults(Boxes.__init__, clock=lambda: scripted.ns, proc=scripted.proc)
    set_defaults(StderrSource.__init__, proc=scripted.proc)
    set_defaults(gather, proc=scripted.proc, py_spy=None)
    monkeypatch.setattr(StderrSource, "interval_seconds", 0.02)
    monkeypatch.setattr(BoxReader, "holder", lambda box: scripted.holders.get(box.path))
    monkeypatch.setattr(ExitWatch, "__init__", lambda watch, pid: None)
    monkeypatch.setattr(ExitWatch, "exit_status", lambda watch: "exit code 1")
    monkeypatch.setattr(ExitWatch, "close", lambda watch: None)
    return scripted


def run_scenario(scenario, box_dir, sources=(), **config):
    """Run a scenario against the HTTP server of an agent."""

    async def main():
        patient = {"scan_timeout_seconds": PATIENCE, "answer_seconds": PATIENCE}
        agent = Agent(AgentConfig(box_dir, "node-a", **patient, **config), tuple(sources))
        async with TestClient(TestServer(agent.app())) as client:
            await asyncio.wait_for(scenario(client), 2 * PATIENCE)

    asyncio.run(main())


async def check_all(client, paths, folder):
    """Ask for each path and compare the answer with its golden.

    Ranks are sorted first, because they come in the order of the file system.
    """
    answers = {}
    for name, path in paths.items():
        answer = normalised(await answer_of(client, path), {str(folder): "<folder>"})
        if isinstance(answer["body"], dict) and "ranks" in answer["body"]:
            answer["body"]["ranks"].sort(key=lambda r: (r["job_id"], r["rank"]))
        answers[f"api/agent/{name}"] = answer
    check_each(answers)


async def snapshot(client):
    """Return the ranks that the agent reports now, by number; none before its first reading."""
    body = (await answer_of(client, SNAPSHOT))["body"]
    return {r["rank"]: r for r in body.get("ranks", ()) if r["job_id"] == JOB}


async def await_readings(client, number):
    """Wait until `number` sources have been read."""

    async def read():
        body = (await answer_of(client, "/healthz"))["body"]
        return len(body["sources"]) == number

    assert await poll(read, PATIENCE)


def test_every_answer_of_the_agent_equals_its_golden(kernel, short_folder):
    boxes = ranks(short_folder / "boxes", kernel, str(short_folder / "boxes" / JOB / "0" / "rank-0.sock"))

    async def scenario(client):
        runner = AppRunner(worker_server())
        await runner.setup()
        await UnixSite(runner, str(short_folder / "boxes" / JOB / "0" / "rank-0.sock")).start()
        await await_readings(client, 12)

        async def stderr_is_held():  # the files behind stderr are open
            answers = [await answer_of(client, f"{EVIDENCE}/{JOB}/{rank}?stacks=0") for rank in range(5)]
            return all(answer["body"].get("stderr_tail") for answer in answers)

        assert await poll(stderr_is_held, PATIENCE)
        for box in boxes[3:5]:  # the one that dies and the one that is done
            del kernel.holders[box.path]

        async def ranks_are_gone():
            states = await snapshot(client)
            return not (states[3]["alive"] or states[4]["alive"])

        assert await poll(ranks_are_gone, PATIENCE)
        before = await snapshot(client)
        kernel.ns += 4 * SECOND

        async def time_has_passed():  # for every rank: a scan may have read some of them before
            now = await snapshot(client)
            aged = all(now[rank]["activity_seconds"] >= before[rank]["activity_seconds"] + 3.9 for rank in before)
            return aged and now[3]["gone_seconds"] == 4.0

        assert await poll(time_has_passed, PATIENCE)
        await check_all(client, PATHS, short_folder)
        version = (await answer_of(client, SNAPSHOT))["body"]["plans_version"]
        await check_all(client, {"snapshot_with_known_plans": f"{SNAPSHOT}?plans={version}"}, short_folder)
        await runner.cleanup()

    run_scenario(scenario, short_folder / "boxes", sources(), scan_interval_seconds=OFTEN)


def test_answers_with_bad_sources_equal_their_goldens(kernel, short_folder):
    ranks(short_folder / "boxes", kernel, "")
    damaged = short_folder / "boxes" / JOB / "0" / "rank-4.box"
    damaged.write_bytes(b"no box")

    async def scenario(client):
        await await_readings(client, 3)
        await check_all(client, BAD, short_folder)

    run_scenario(
        scenario, short_folder / "boxes", bad_sources(), scan_interval_seconds=ONCE, without=frozenset({"stderr"})
    )


def test_answers_of_a_blind_agent_equal_their_goldens(stopped_clock, short_folder):
    (short_folder / "boxes").write_text("no folder")

    async def scenario(client):
        await await_readings(client, 1)
        await check_all(client, BLIND, short_folder)

    run_scenario(scenario, short_folder / "boxes", scan_interval_seconds=ONCE, without=frozenset({"stderr"}))


def test_every_golden_of_the_agent_is_compared():
    names = {*PATHS, *BAD, *BLIND, "snapshot_with_known_plans"}
    assert {path.stem for path in (GOLDEN / "api/agent").glob("*.json")} == names


def test_every_route_of_the_agent_has_a_golden(tmp_path):
    app = Agent(AgentConfig(tmp_path, "node-a"), ()).app()
    routes = {route.resource.canonical for route in app.router.routes()}
    paths = {SNAPSHOT, "/healthz", "/api/v1/suspects", f"{EVIDENCE}/{{job_id}}/{{rank}}"}
    assert routes == paths | {"/metrics", "/livez", "/readyz"}  # golden/agent_page.txt; the others have no body
