"""Tests that compare answers of the hub with goldens: names, types and values that other programs read."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp.test_utils import TestClient, TestServer

import zmon
from tests.build import JOB, NOW
from tests.golden.agent_scene import answer_of
from tests.golden.compare import GOLDEN, check, check_each, check_text, normalised
from tests.golden.hub_scene import hub as full_hub
from zmon.hub import Hub, HubConfig

JOBS, FINDINGS, INCIDENTS = "/api/v1/jobs", "/api/v1/findings", "/api/v1/incidents"
SCALING = f"{JOBS}/{JOB}/scaling"
PATHS = {
    "healthz": "/healthz",
    "jobs": JOBS,
    "ranks": f"{JOBS}/{JOB}/ranks",
    "ranks_of_a_stall": f"{JOBS}/stuck/ranks",
    "ranks_of_no_job": f"{JOBS}/none/ranks",
    "plan": f"{JOBS}/{JOB}/plan",
    "plan_untold": f"{JOBS}/fresh/plan",
    "scaling": SCALING,
    "scaling_ranks": f"{SCALING}?ranks=4,16",
    "scaling_batch": f"{SCALING}?ranks=2,16&batch=128",
    "scaling_batch_per_rank": f"{SCALING}?ranks=16&batch_per_rank=64",
    "scaling_what_if": f"{SCALING}?ranks=8&what_if=net=2&what_if=own=0.5",
    "scaling_unknown": f"{JOBS}/stuck/scaling",
    "scaling_two_batches": f"{SCALING}?batch=128&batch_per_rank=32",
    "scaling_bad_batch": f"{SCALING}?batch=many",
    "scaling_bad_ranks": f"{SCALING}?ranks=some",
    "scaling_bad_what_if": f"{SCALING}?what_if=nothing=2",
    "scaling_of_no_job": f"{JOBS}/none/scaling",
    "findings": FINDINGS,
    "findings_active": f"{FINDINGS}?active=1",
    "findings_of_a_job": f"{FINDINGS}?job_id={JOB}",
    "findings_without_evidence": f"{FINDINGS}?evidence=0",
    "detectors": "/api/v1/detectors",
    "incidents": INCIDENTS,
    "incident": f"{INCIDENTS}/abc1",
    "incident_over": f"{INCIDENTS}/abd2",
    "incident_of_nobody": f"{INCIDENTS}/none",
    "incident_bad_id": f"{INCIDENTS}/.hidden",
    "report_of_nobody": f"{INCIDENTS}/none/report.html",
    "report_bad_id": f"{INCIDENTS}/.hidden/report.html",
    "nothing": "/api/v1/nothing",
}
NEW = {"healthz_new": "/healthz", "jobs_new": JOBS, "findings_new": FINDINGS, "incidents_new": INCIDENTS}
UNWRITTEN = {"healthz_unwritten": "/healthz"}
ROUTES = {
    "/metrics", "/healthz", JOBS, f"{JOBS}/{{job_id}}/ranks", f"{JOBS}/{{job_id}}/plan", f"{JOBS}/{{job_id}}/scaling",
    FINDINGS, "/api/v1/detectors", INCIDENTS, f"{INCIDENTS}/{{id}}", f"{INCIDENTS}/{{id}}/report.html",
    "/livez", "/readyz",
}  # fmt: skip


@pytest.fixture
def run_scenario(tmp_path, stopped_clock):
    """Run a scenario against the HTTP server of a hub whose loop does not run: it asks no agent."""

    def run(scenario, hub):
        async def main():
            app = hub.app()
            app.cleanup_ctx.clear()
            async with TestClient(TestServer(app)) as client:
                await asyncio.wait_for(scenario(client), 120)

        asyncio.run(main())

    return run


async def check_all(client, paths, folder):
    """Ask for each path and compare the answer with its golden."""
    replaced = {str(folder): "<folder>"}
    check_each({f"api/hub/{name}": normalised(await answer_of(client, path), replaced) for name, path in paths.items()})


def rounded(line):
    """Return a line of the page with as many digits in its value as the goldens have."""
    name, _, value = line.rpartition(" ")
    return line if line.startswith("#") else f"{name} {normalised(float(value), {})!r}\n"


def test_every_answer_of_the_hub_equals_its_golden(run_scenario, tmp_path):
    async def scenario(client):
        await check_all(client, PATHS, tmp_path)

    run_scenario(scenario, full_hub(tmp_path))


def test_metrics_page_equals_its_golden(run_scenario, tmp_path):
    async def scenario(client):
        answer = await answer_of(client, "/metrics")
        assert (answer["status"], answer["type"]) == (200, "text/plain")
        page = answer["body"].replace(f'version="{zmon.__version__}"', 'version="<version>"')
        check_text("hub_page.txt", "".join(map(rounded, page.splitlines(keepends=True))))

    run_scenario(scenario, full_hub(tmp_path))


def test_incident_page_has_the_golden_security_headers(run_scenario, tmp_path):
    async def scenario(client):
        async with client.get(f"{INCIDENTS}/abc1/report.html") as answer:
            names = ("Content-Type", "Content-Security-Policy", "X-Content-Type-Options")
            check("api/hub/report", {"status": answer.status, **{name: answer.headers[name] for name in names}})

    run_scenario(scenario, full_hub(tmp_path))


def test_answers_of_a_new_hub_equal_their_goldens(run_scenario, tmp_path):
    async def scenario(client):
        await check_all(client, NEW, tmp_path)

    run_scenario(scenario, Hub(HubConfig(("http://node-a:9780",), tmp_path)))


def test_health_of_a_hub_that_cannot_write_equals_its_golden(run_scenario, tmp_path):
    hub = full_hub(tmp_path)
    hub.journal.errors.error, hub.incidents.error = "No space left on device", "Read-only file system"
    hub.job_states.accounts.errors.error = "cannot write accounts/job.json: No space left on device"
    hub.last_pass_time = NOW - 60.0  # and its passes are late

    async def scenario(client):
        await check_all(client, UNWRITTEN, tmp_path)

    run_scenario(scenario, hub)


def test_every_golden_of_the_hub_is_compared():
    assert {path.stem for path in (GOLDEN / "api/hub").glob("*.json")} == {*PATHS, *NEW, *UNWRITTEN, "report"}


def test_every_route_of_the_hub_has_a_golden(tmp_path):
    app = Hub(HubConfig((), tmp_path)).app()
    assert {route.resource.canonical for route in app.router.routes()} == ROUTES
