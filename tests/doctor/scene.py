"""A healthy Prometheus, Alertmanager and agent, which tests change into faulty ones."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime

import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer

import zmon
from tests.build import NOW
from zmon.doctor.paging import AlertmanagerState
from zmon.doctor.prometheus_state import PrometheusState, Rule, RuleGroup, Target
from zmon.doctor.rules import shipped
from zmon.schema.host import SourceStatus
from zmon.schema.job_snapshot import AgentStatus
from zmon.schema.scraping import MADE_FOR

STALL_QUERY = 'max by (job_id) (zmon_finding{severity="critical"}) > 0'
ROUTES = yaml.safe_load("""
route:
  receiver: desk
  routes:
    - {receiver: nobody, matchers: ['alertname="ZmonWatchdog"']}
    - {receiver: pager, matchers: ['severity="critical"']}
receivers:
  - {name: pager, pagerduty_configs: [{routing_key: <secret>}]}
  - {name: desk, email_configs: [{to: desk@example.com}]}
  - {name: nobody}
""")


def target(job="zmon-agent", **changes):
    """Return a target that is scraped."""
    scraped = Target(
        labels={"job": job, "instance": f"{job}:1"}, scrape_url=f"http://{job}:1/metrics", health="up", last_error="",
        scrape_interval="2s",
    )  # fmt: skip
    for name, value in changes.items():
        setattr(scraped, name, value)
    return scraped


def agent_status(number, **changes):
    """Return what the hub says of the agent of node-NUMBER. By default it answers, with this version of zmon."""
    name = f"node-{number}"
    status = AgentStatus(f"http://{name}:9780", host=name, reachable=True, silent_seconds=0.0, version=zmon.__version__)
    return replace(status, **changes)


def source(name, up=True, **changes):
    """Return the status of a source of an agent. By default it reads."""
    status = SourceStatus(
        name, up=up, absent=False, duration_seconds=0.1, last_success_time=1.0 if up else None,
        num_errors=0 if up else 3, error=None,
    )  # fmt: skip
    return replace(status, **changes)


def rules(agent_seconds=2, hub_seconds=2):
    """Return all rules of zmon, loaded and evaluated a second ago; all alerts use zmon_finding.

    They are made for these scrape intervals.
    """
    alerts = [Rule(name, "alerting", STALL_QUERY, "ok", state="inactive") for name in shipped().alerts]
    groups = {"alerts": alerts} | {
        group: [Rule(name, "recording", "vector(1)", "ok") for name in names if name != MADE_FOR]
        for group, names in shipped().records.items()
    }
    groups["zmon-records"] += [
        Rule(MADE_FOR, "recording", f"vector({seconds})", "ok", labels={"daemon": daemon})
        for daemon, seconds in (("agent", agent_seconds), ("hub", hub_seconds))
    ]
    when = datetime.fromtimestamp(NOW - 1, UTC)
    return tuple(
        RuleGroup(name, interval=2.0, rules=made, evaluation_time=0.01, last_evaluation=when)
        for name, made in groups.items()
    )


def healthy(**changes):
    """Return the state of a healthy Prometheus, with these changes."""
    state = PrometheusState(
        url="http://prometheus:9090", now=NOW, up_seconds=3600.0, config_loaded=True,
        targets=(target(), target("zmon-hub")), groups=rules(),
        external_labels={"zmon_dashboard": "http://dashboard", "zmon_docs": "http://docs"},
        alertmanagers=("http://alertmanager:9093",), present=frozenset({"zmon_finding"}), declared=frozenset(),
        agent_hosts=frozenset({"node-a"}), hubs=frozenset({("zmon-hub", "zmon-hub:1")}),
    )  # fmt: skip
    return replace(state, **changes)


def alertmanager(**changes):
    """Return the state of a healthy Alertmanager, with these changes."""
    labels = {"alertname": "ZmonWatchdog", "cluster": "east"}
    state = AlertmanagerState("http://alertmanager:9093", ROUTES, labels, silences=(), sent={}, failed={})
    return replace(state, **changes)


def inert(checks):
    """Return the results of inert checks, by name of the check."""
    return {check.name: check.result for check in checks if check.armed is False}


@asynccontextmanager
async def serving(answers):
    """Serve these answers by path and yield the base URL: JSON, text, a status, or a status with JSON."""

    async def answer(request):
        content = answers.get(request.path, 404)
        content = content(request.query) if callable(content) else content
        if isinstance(content, int):
            return web.Response(status=content)
        if isinstance(content, tuple):
            return web.json_response(content[1], status=content[0])
        return web.Response(text=content) if isinstance(content, str) else web.json_response(content)

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    async with TestServer(app) as server:
        yield str(server.make_url("")).rstrip("/")
