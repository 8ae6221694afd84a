"""Tests of agents that a Prometheus scrapes."""

import asyncio

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer

from zmon.errors import Unreachable, ZmonError
from zmon.hub.discovery.prometheus import PrometheusTargets
from zmon.schema.http_config import Authorization, HttpConfig

# As Prometheus 2.42 answers GET /api/v1/targets?state=active, without what zmon does not read.
TARGETS = {
    "status": "success",
    "data": {
        "activeTargets": [
            {"scrapeUrl": "http://node-2:9780/metrics", "labels": {"job": "zmon-agent"}, "health": "down"},
            {"scrapeUrl": "https://node-1:9780/metrics", "labels": {"job": "zmon-agent"}, "health": "up"},
            {"scrapeUrl": "http://hub:9781/metrics", "labels": {"job": "zmon-hub"}, "health": "up"},
        ],
        "droppedTargets": [],
    },
}


def find(answer, status=200, http=None, shown=None):
    """Return the agents in this answer of a Prometheus, which must see the header Authorization `shown`."""

    async def targets(request):
        assert request.query["state"] == "active"
        assert request.headers.get("Authorization") == shown
        return web.json_response(answer, status=status)

    async def main():
        app = web.Application()
        app.add_routes([web.get("/api/v1/targets", targets)])
        async with TestServer(app) as server, ClientSession(headers={"Authorization": "of agents"}) as session:
            return await PrometheusTargets(str(server.make_url("")).rstrip("/"), http).find(session)

    return asyncio.run(main())


def test_targets_of_the_job_of_agents_are_found_whether_up_or_down():
    assert find(TARGETS) == ("http://node-2:9780", "https://node-1:9780")


def test_prometheus_is_not_shown_the_token_for_agents():
    http = HttpConfig(authorization=Authorization(credentials="of-prometheus"))
    assert find(TARGETS, http=http, shown="Bearer of-prometheus")


def of_jobs(*jobs):
    """Return the answer of a Prometheus that scrapes a target for each of these jobs."""
    targets = [{"scrapeUrl": f"http://n{n}:9780/metrics", "labels": {"job": job}} for n, job in enumerate(jobs)]
    return {"status": "success", "data": {"activeTargets": targets}}


@pytest.mark.parametrize("job", ["monitoring/zmon-agent", "train-zmon-agent"])
def test_job_that_the_operator_names_is_found_as_the_alert_rules_find_it(job):
    assert find(of_jobs(job, "zmon-agents", "node-exporter")) == ("http://n0:9780",)


@pytest.mark.parametrize(
    ("jobs", "reason"), [((), "it has no target"), (("kubelet", "coredns"), "it has coredns, kubelet")]
)
def test_prometheus_that_scrapes_no_agent_is_an_error_that_names_its_jobs(jobs, reason):
    with pytest.raises(ZmonError, match=rf"scrapes no agent.*{reason}.*Let the name of a scrape job end in zmon-agent"):
        find(of_jobs(*jobs))


@pytest.mark.parametrize(("answer", "status"), [({"status": "success"}, 200), ([], 200), ({}, 503)])
def test_answer_that_is_no_list_of_targets_is_refused(answer, status):
    with pytest.raises(Unreachable):
        find(answer, status)
