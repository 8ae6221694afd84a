"""A Prometheus and an Alertmanager that are well; a test says what is wrong with them."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime

import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.build import NOW
from zmon.doctor.paging import Pager
from zmon.doctor.rules import shipped
from zmon.doctor.told import PrometheusState, Rule, RuleGroup, Target

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
    """A page that is scraped."""
    page = Target({"job": job, "instance": f"{job}:1"}, f"http://{job}:1/metrics", "up", "", "2s")
    for name, value in changes.items():
        setattr(page, name, value)
    return page


def rules():
    """Everything that zmon ships, loaded and evaluated a second ago; all alerts look at zmon_finding."""
    alerts = [Rule(name, "alerting", STALL_QUERY, "ok", None, "inactive") for name in shipped().alerts]
    groups = {"alerts": alerts} | {
        group: [Rule(name, "recording", "vector(1)", "ok") for name in names]
        for group, names in shipped().records.items()
    }
    when = datetime.fromtimestamp(NOW - 1, UTC)
    return tuple(RuleGroup(name, 2.0, made, 0.01, when) for name, made in groups.items())


def told(**changes):
    """What a Prometheus says that is well."""
    well = PrometheusState(
        "http://prometheus:9090", NOW, 3600.0, True, (target(), target("zmon-hub")), rules(),
        {"zmon_dashboard": "http://dashboard", "zmon_docs": "http://docs"}, ("http://alertmanager:9093",),
        frozenset({"zmon_finding"}), frozenset(), frozenset({"node-a"}), 1,
    )  # fmt: skip
    return replace(well, **changes)


def pager(**changes):
    """What an Alertmanager says that is well."""
    well = Pager("http://alertmanager:9093", ROUTES, {"alertname": "ZmonWatchdog", "cluster": "east"}, (), {}, {})
    return replace(well, **changes)


def inert(checks):
    """What is inert, by name: what was found."""
    return {check.name: check.found for check in checks if check.armed is False}


@asynccontextmanager
async def serving(answers):
    """The base URL of a daemon that answers with these by path: JSON, text, a status, or a status with JSON."""

    async def answer(request):
        found = answers.get(request.path, 404)
        found = found(request.query) if callable(found) else found
        if isinstance(found, int):
            return web.Response(status=found)
        if isinstance(found, tuple):
            return web.json_response(found[1], status=found[0])
        return web.Response(text=found) if isinstance(found, str) else web.json_response(found)

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    async with TestServer(app) as server:
        yield str(server.make_url("")).rstrip("/")
