"""Tests of every answer of the agent: names, types and values that other programs read.

A golden has each main document. Another answer is a row: its status, its type, and the values that decide it.
"""

from __future__ import annotations

import inspect
import tempfile
import time
from pathlib import Path

import pytest
from aiohttp.test_utils import TestClient, TestServer
from aiohttp.web import AppRunner, UnixSite

from tests.agent.agent_client import poll
from tests.build import JOB
from tests.golden.agent_scene import SECOND, Kernel, answer_of, ranks, sources, worker_server
from tests.golden.compare import GOLDEN, check_each, normalised
from tests.golden.rows import Row, check_rows, problem
from tests.steps import only_records
from zmon.agent import Agent, AgentConfig
from zmon.agent.evidence import gather
from zmon.agent.sources.boxes import Boxes
from zmon.agent.sources.stderr import StderrSource
from zmon.box.reader import BoxReader
from zmon.process import ExitWatch
from zmon.schema.api import RankEvidence, Suspects
from zmon.schema.api.agent import AgentReport

SNAPSHOT, EVIDENCE = "/api/v1/snapshot", "/api/v1/evidence"
PATIENCE = 60.0  # seconds; a busy machine is not a failure
GOLDENS = {
    "healthz": "/healthz",
    "snapshot": f"{SNAPSHOT}?since=0&last=1&job_id={JOB}",
    "suspects": "/api/v1/suspects",
    "evidence": f"{EVIDENCE}/{JOB}/0",
}
RANKS = [*((JOB, rank) for rank in range(5)), ("other", 0)]
UID = (b"o" * 16).hex()  # of the start of `other`
NO_SERVER = "the job has no worker server (torch < 2.9?)"
NO_RANK = "no rank {} of job {} on this node: zmon status lists jobs and ranks"
SUSPECTED = [
    (JOB, 0, "overdue"), (JOB, 1, "overdue"), (JOB, 2, "stopped"), (JOB, 3, "exited"), ("other", 0, "overdue"),
]  # fmt: skip


def contents(report):
    """Return the ranks, the steps by job, and whether there are plans and hardware."""
    steps = {job: sorted(count for part in parts for count in part.counts) for job, parts in report.steps.items()}
    hardware = report.sample.gpus is not None
    return sorted((r.job_id, r.rank) for r in report.ranks), steps, [*report.plans], report.plans_version, hardware


def gathered(evidence):
    """Return the rank of the evidence, and each part of it or the reason why it is missing."""
    return (
        evidence.job_id, evidence.rank, evidence.run_uid[:2], evidence.alive, evidence.pid, evidence.wchan,
        evidence.stack or evidence.stack_error, evidence.flight or evidence.flight_error,
        evidence.stderr_tail or evidence.stderr_error,
    )  # fmt: skip


def rows(version, plan_uid):
    """Return the rows of a node whose plans have this version and come from this start of a rank."""
    plans, no_plans = [plan_uid], []
    return (
        Row(SNAPSHOT, 200, AgentReport, contents, (RANKS, {}, plans, version, True)),
        Row(f"{SNAPSHOT}?plans={version}", 200, AgentReport, contents, (RANKS, {}, no_plans, version, True)),
        Row(f"{SNAPSHOT}?since=0", 200, AgentReport, contents,
            (RANKS, {JOB: [10] * 5, "other": [34]}, plans, version, True)),
        Row(f"{SNAPSHOT}?since=0&about=4&job_id=other", 200, AgentReport,
            lambda report: (contents(report), [(r.step, r.mean is None) for r in only_records(*report.steps["other"])]),
            (([("other", 0)], {"other": [2]}, no_plans, "", True), [(8, True), (28, True)])),
        Row(f"{SNAPSHOT}?job_id=none", 200, AgentReport, contents, ([], {}, no_plans, "", True)),
        problem(f"{SNAPSHOT}?since=x", 400, "since='x' is not an integer"),
        Row("/api/v1/suspects?wait=0.01&since=2", 200, Suspects,
            lambda answer: (answer.version, answer.leaving, [(s.job_id, s.rank, s.reason) for s in answer.suspects]),
            (2, False, SUSPECTED)),
        problem("/api/v1/suspects?wait=x", 400, "wait='x' is not a number"),
        Row(f"{EVIDENCE}/{JOB}/1?stacks=0", 200, RankEvidence, gathered,
            (JOB, 1, "01", True, 4_200_001, "futex_wait_queue", "not requested", NO_SERVER, "rank 1 said\n")),
        Row(f"{EVIDENCE}/other/0?stacks=0&run={UID}", 200, RankEvidence, gathered,
            ("other", 0, "6f", True, 4_200_100, "futex_wait_queue", "not requested", NO_SERVER, "rank 0 said\n")),
        Row(f"{EVIDENCE}/{JOB}/3", 200, RankEvidence, gathered,
            (JOB, 3, "03", False, None, None, "its process is gone", "its process is gone", "rank 3 said\n")),
        problem(f"{EVIDENCE}/other/0?run=00", 404, NO_RANK.format(0, "other")),
        problem(f"{EVIDENCE}/{JOB}/x", 404, NO_RANK.format("x", JOB)),
        Row("/api/v1/nothing", 404, str, str, "404: Not Found"),
    )  # fmt: skip


@pytest.fixture
def short_folder():
    """Yield a folder whose path is short enough for a socket."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder)


@pytest.fixture
def kernel(short_folder, stopped_clock, monkeypatch):
    """Return a scripted kernel, and make everything in the agent use it."""

    def set_defaults(function, **values):  # of arguments that callers do not pass on
        parameters = inspect.signature(function).parameters
        all_values = [values.pop(name, parameter.default) for name, parameter in parameters.items()]
        assert not values, f"{function} has lost {[*values]}"
        monkeypatch.setattr(function, "__defaults__", tuple(v for v in all_values if v is not inspect.Parameter.empty))

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


async def snapshot(client):
    """Return the ranks that the agent reports now, by number; none before its first reading."""
    body = (await answer_of(client, SNAPSHOT))["body"]
    return {r["rank"]: r for r in body.get("ranks", ()) if r["job_id"] == JOB}


async def test_answers_of_the_agent_equal_their_goldens_and_rows(kernel, short_folder):
    box_dir = short_folder / "boxes"
    socket = box_dir / JOB / "0/rank-0.sock"
    boxes, hardware = ranks(box_dir, kernel, str(socket)), sources()
    config = AgentConfig(
        box_dir, "node-a", scan_interval_seconds=0.01, scan_timeout_seconds=PATIENCE, answer_seconds=PATIENCE
    )
    async with TestClient(TestServer(Agent(config, tuple(hardware)).app())) as client:
        runner = AppRunner(worker_server())
        await runner.setup()
        await UnixSite(runner, str(socket)).start()

        async def all_is_read():  # each source, the boxes and stderr, and the files behind the stderr of each rank
            health = (await answer_of(client, "/healthz"))["body"]
            answers = [await answer_of(client, f"{EVIDENCE}/{JOB}/{rank}?stacks=0") for rank in range(5)]
            stderr_is_held = all(answer["body"].get("stderr_tail") for answer in answers)
            return len(health["sources"]) == len(hardware) + 2 and stderr_is_held

        assert await poll(all_is_read, PATIENCE)
        for box in boxes[3:5]:  # the one that dies and the one that is done
            kernel.end(box)

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
        body = (await answer_of(client, SNAPSHOT))["body"]
        answers = {name: await answer_of(client, path) for name, path in GOLDENS.items()}
        answers["snapshot"]["body"]["ranks"].sort(key=lambda r: (r["job_id"], r["rank"]))  # not as the files come
        folder = {str(short_folder): "<folder>"}
        check_each({f"api/agent/{name}": normalised(answer, folder) for name, answer in answers.items()})
        await check_rows(client, rows(body["plans_version"], "00" * 16))
        await runner.cleanup()


def test_every_golden_of_the_agent_is_compared():
    assert {path.stem for path in (GOLDEN / "api/agent").glob("*.json")} == {*GOLDENS}


def test_every_route_of_the_agent_has_a_golden_or_a_row(tmp_path):
    app = Agent(AgentConfig(tmp_path, "node-a"), ()).app()
    routes = {route.resource.canonical for route in app.router.routes()}
    paths = {SNAPSHOT, "/healthz", "/api/v1/suspects", f"{EVIDENCE}/{{job_id}}/{{rank}}"}
    others = {"/metrics", "/livez", "/readyz"}  # golden/agent_page.txt; the others have no body
    assert routes == paths | others | {"/api/v1/acts"}  # a POST: tests/agent/acts/test_acts.py
