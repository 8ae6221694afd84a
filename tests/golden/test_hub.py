"""Tests of every answer of the hub: names, types and values that other programs read.

A golden has each main document. Another answer is a row: its status, its type, and the values that decide it.
"""

from __future__ import annotations

from contextlib import asynccontextmanager

from aiohttp.test_utils import TestClient, TestServer

import zmon
from tests.build import JOB, NOW
from tests.golden.agent_scene import answer_of
from tests.golden.compare import GOLDEN, check_each, check_text, normalised
from tests.golden.hub_scene import hub as full_hub
from tests.golden.rows import Row, check_rows, problem
from zmon.hub import Hub, HubConfig
from zmon.schema.api import EndList, FindingList, HubHealth, IncidentList, JobList, RankList, RankSummary, ScalingAnswer
from zmon.schema.incident import Capsule

JOBS, FINDINGS, INCIDENTS = "/api/v1/jobs", "/api/v1/findings", "/api/v1/incidents"
SCALING = f"{JOBS}/{JOB}/scaling"
GOLDENS = {
    "healthz": "/healthz",
    "jobs": JOBS,
    "ranks": f"{JOBS}/{JOB}/ranks",
    "plan": f"{JOBS}/{JOB}/plan",
    "scaling": SCALING,
    "findings": FINDINGS,
    "detectors": "/api/v1/detectors",
    "incidents": INCIDENTS,
    "incident": f"{INCIDENTS}/abc1",
    "problem": f"{INCIDENTS}/none",
}


def ranks(answer):
    """Return the decisive values of each rank, and the summary of all."""
    rows = [
        (r.rank, r.process_state, r.op, r.sequence, r.in_flight_seconds, r.overdue_seconds, r.self_seconds)
        for r in answer.ranks
    ]
    return rows, answer.summary


def sizes(answer):
    """Return the seconds that each size is predicted to take, and its efficiency or the reason why it is unknown."""
    shares = [size.efficiency for size in answer.sizes]
    efficiencies = [share.unknown or (round(share.ratio, 9), share.scaling) for share in shares]
    seconds = [(size.ranks, size.samples, round(size.predicted.seconds, 9)) for size in answer.sizes]
    return [*zip(seconds, efficiencies, strict=True)]


def capsule(answer):
    """Return the decisive values of a capsule that is over."""
    return (
        answer.finding.id, answer.finding.resolved, answer.hosts, [(rank.rank, rank.culprit) for rank in answer.ranks],
        [event.what for event in answer.timeline], answer.left_out,
    )  # fmt: skip


UNPAIRED = (
    "no recorded size of dlrm has as many samples, per rank or in all, as 2 ranks × 64 samples (recorded: 1 × 32, "
    "4 × 16, 4 × 32, 8 × 32)"
)
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
WAITING = ("S", "all_to_all", 301, 5.0, 3.5, None)  # a rank that waits in a collective
NO_CAPSULE = "there is no capsule of none: `zmon incident` lists all incidents"
NO_ID = "'.hidden' is not an incident id. `zmon incident` lists the incidents"
NO_JOB = "no agent reports a job none"
STALLED = RankSummary(4, 4, 0, [], {"overdue": 3, "train": 1})
ROWS = (
    Row(f"{JOBS}/stuck/ranks", 200, RankList, ranks, (
        [(0, *WAITING), (1, *WAITING), (2, "T", None, None, None, 0.0, None), (3, *WAITING)], STALLED,
    )),
    Row(f"{SCALING}?ranks=2,16&batch=128", 200, ScalingAnswer, sizes,
        [((2, 128, 0.005553342), UNPAIRED), ((16, 128, 0.009545482), (0.153947012, "strong"))]),
    Row("/api/v1/ends", 200, EndList, lambda answer: (answer.num_ends, answer.ends), (0, [])),
    problem(f"{SCALING}?batch=128&batch_per_rank=32", 400,
            "batch and batch_per_rank contradict each other: batch is for all ranks together, batch_per_rank for each "
            "rank. Give only one of them"),
    problem(f"{JOBS}/none/scaling", 404, NO_JOB),
    problem(f"{JOBS}/none/ranks", 404, NO_JOB),
    Row(f"{INCIDENTS}/abd2", 200, Capsule, capsule, (
        "abd2", NOW - 10, (), [(0, False), (1, False), (2, True), (3, False)],
        ["first sign at step 100", "finding opened: rank_frozen, critical"],
        ("the hardware of node-a: no agent answered for it at that time",),
    )),
    problem(f"{INCIDENTS}/.hidden", 404, NO_ID),
    problem(f"{INCIDENTS}/none/report.html", 404, NO_CAPSULE),
    problem(f"{INCIDENTS}/.hidden/report.html", 404, NO_ID),
    Row("/api/v1/nothing", 404, str, str, "404: Not Found"),
)  # fmt: skip
NEW = (
    Row("/healthz", 503, HubHealth,
        lambda answer: (answer.healthy, [(agent.url, agent.error, agent.host) for agent in answer.agents]),
        (False, [("http://node-a:9780", "it has not answered yet", None)])),
    Row(JOBS, 200, JobList,
        lambda answer: (answer.blind, answer.jobs, answer.as_of, answer.num_agents, answer.num_agents_answering),
        (True, [], None, 1, 0)),
    Row(FINDINGS, 200, FindingList, lambda answer: answer.findings, []),
    Row(INCIDENTS, 200, IncidentList, lambda answer: answer.incidents, []),
)  # fmt: skip
ROUTES = {
    "/metrics", "/healthz", JOBS, f"{JOBS}/{{job_id}}/ranks", f"{JOBS}/{{job_id}}/plan", f"{JOBS}/{{job_id}}/scaling",
    FINDINGS, "/api/v1/detectors", "/api/v1/ends", "/api/v1/intents", INCIDENTS, f"{INCIDENTS}/{{id}}",
    f"{INCIDENTS}/{{id}}/report.html", "/livez", "/readyz",
}  # fmt: skip


@asynccontextmanager
async def client_of(hub):
    """Yield a client of the HTTP server of a hub, whose loop does not run."""
    app = hub.app()
    app.cleanup_ctx.clear()
    async with TestClient(TestServer(app)) as client:
        yield client


def rounded(line):
    """Return a line of the page with as many digits in its value as the goldens have."""
    name, _, value = line.rpartition(" ")
    return line if line.startswith("#") else f"{name} {normalised(float(value), {})!r}\n"


async def test_answers_of_the_hub_equal_their_goldens_and_rows(stopped_clock, tmp_path):
    async with client_of(full_hub(tmp_path)) as client:
        answers = {name: await answer_of(client, path) for name, path in GOLDENS.items()}
        folder = {str(tmp_path): "<folder>"}
        check_each({f"api/hub/{name}": normalised(answer, folder) for name, answer in answers.items()})
        await check_rows(client, ROWS)
        async with client.get(f"{INCIDENTS}/abc1/report.html") as answer:
            assert (answer.status, answer.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
            assert answer.headers["Content-Security-Policy"] == POLICY
            assert answer.headers["X-Content-Type-Options"] == "nosniff"


async def test_answers_of_a_new_hub_have_nothing_and_say_that_it_is_blind(stopped_clock, tmp_path):
    async with client_of(Hub(HubConfig(("http://node-a:9780",), tmp_path))) as client:
        await check_rows(client, NEW)


async def test_metrics_page_equals_its_golden(stopped_clock, tmp_path):
    hub = full_hub(tmp_path)
    hub.job_states.accounts.save()
    async with client_of(hub) as client:
        answer = await answer_of(client, "/metrics")
    assert (answer["status"], answer["type"]) == (200, "text/plain")
    page = answer["body"].replace(f'version="{zmon.__version__}"', 'version="<version>"')
    check_text("hub_page.txt", "".join(map(rounded, page.splitlines(keepends=True))))


def test_every_golden_of_the_hub_is_compared():
    assert {path.stem for path in (GOLDEN / "api/hub").glob("*.json")} == {*GOLDENS}


def test_every_route_of_the_hub_has_a_golden_or_a_row(tmp_path):
    app = Hub(HubConfig((), tmp_path)).app()
    assert {route.resource.canonical for route in app.router.routes()} == ROUTES
