"""Tests of the checks of Prometheus: scraping, rule evaluation, and links in pages."""

from datetime import UTC, datetime

import aiohttp
import pytest

from tests.build import NOW
from tests.doctor.scene import healthy, inert, rules, serving, target
from zmon.doctor import Check
from zmon.doctor.prometheus import ask, checks

HOSTS = ["node-a"]


def vector(*labels):
    """Return Prometheus's answer with one series for each of these labels."""
    return {"data": {"resultType": "vector", "result": [{"metric": metric, "value": [NOW, "1"]} for metric in labels]}}


def answers(query):
    """Return the series of the scripted Prometheus for a query."""
    results = {
        "time()": {"data": {"resultType": "scalar", "result": [NOW, str(NOW)]}},
        "group by (host) (zmon_source_up)": vector({"host": "node-a"}),
        "group by (job, instance) (zmon_hub_pass_seconds)": vector({"job": "zmon-hub", "instance": "hub:9781"}),
        'group(up{job=~".*zmon-agent"})': vector({}),
    }
    return results.get(query["query"], vector())


EVALUATED = {"evaluationTime": 0.0003, "lastEvaluation": "2026-11-21T17:12:32.760368097Z"}
ALERT = EVALUATED | {
    "name": "ZmonStall", "type": "alerting", "health": "ok", "state": "inactive",
    "query": "max(zmon:finding:standing) > 0",
}  # fmt: skip
GONE = ALERT | {"name": "ZmonAgentsAbsent", "query": 'absent(up{job=~".*zmon-agent"} == 1)'}
RECORD = ALERT | {"name": "zmon:finding:standing", "type": "recording", "query": "zmon_finding > 0"}
GROUP = EVALUATED | {"name": "zmon-findings", "interval": 2, "limit": 0, "rules": [RECORD, ALERT, GONE]}
TARGET = {
    "labels": {"job": "zmon-agent", "instance": "node-a:9780"}, "scrapeUrl": "http://node-a:9780/metrics",
    "health": "up", "lastError": "", "scrapeInterval": "2s",
}  # fmt: skip
CONFIG = "global:\n  external_labels: {zmon_docs: http://docs}\nscrape_configs: []\n"
ANSWERS = {
    "/api/v1/query": answers,
    "/api/v1/status/runtimeinfo": {"data": {"startTime": "2027-01-15T07:59:50Z", "reloadConfigSuccess": True}},
    "/api/v1/targets": {"data": {"activeTargets": [TARGET], "droppedTargets": []}},
    "/api/v1/rules": {"data": {"groups": [GROUP]}},
    "/api/v1/status/config": {"data": {"yaml": CONFIG}},
    "/api/v1/alertmanagers": {"data": {"activeAlertmanagers": [{"url": "http://am:9093/x/api/v2/alerts"}]}},
    "/api/v1/metadata": lambda query: {"data": {"zmon_finding": [{}]} if query["metric"] == "zmon_finding" else {}},
}


async def read_prometheus(**changes):
    """Return what doctor reads from a Prometheus with these answers."""
    scripted = ANSWERS | {f"/api/v1/{path.replace('_', '/')}": answer for path, answer in changes.items()}
    async with serving(scripted) as url, aiohttp.ClientSession() as session:
        return await ask(session, url)


def group(**changes):
    """Return all rules with changes to the first group."""
    groups = rules()
    for name, value in changes.items():
        setattr(groups[0], name, value)
    return groups


def test_healthy_prometheus_is_armed():
    results = checks(healthy(), HOSTS)
    assert all(check.armed for check in results)
    assert "1 agent and 1 hub, every 2s" in [check.result for check in results]


NEVER = group(last_evaluation=datetime(1, 1, 1, tzinfo=UTC))
LATE = group(last_evaluation=datetime.fromtimestamp(NOW - 31, UTC))
AGENT, HUB = target(), target("zmon-hub")
FAULTS = {  # changes of a healthy Prometheus, the check that is inert, and a part of its result
    "configuration not loaded again": ({"config_loaded": False}, "Prometheus", "still uses the previous one"),
    "agents under another job name": ({"targets": (target("zmon"),)}, "scrape agents", "ends in zmon-agent"),
    "hub not scraped": ({"hubs": frozenset()}, "scrape hub", "no finding can page"),
    "host that only the hub knows": ({"agent_hosts": frozenset()}, "scrape hosts", "node-a"),
    "rare scrapes": ({"targets": (target(scrape_interval="30s"), HUB)}, "scrape interval", "agents every 30 s"),
    "no rules": ({"groups": ()}, "rule evaluation", "nothing pages"),
    "late rules": ({"groups": LATE}, "rule evaluation", "due every 2 s, but was evaluated last 31 s ago"),
    "late rules of one file of two": ({"groups": (LATE[0], *rules())}, "rule evaluation", "last 31 s ago"),
    "rules never evaluated": ({"groups": NEVER}, "rule evaluation", "never"),
    "rules slower than their interval": ({"groups": group(evaluation_time=2.5)}, "rule evaluation", "takes 2.5 s"),
    "no external label": ({"external_labels": {"zmon_docs": "x"}}, "links in pages", "links to dashboard in pages"),
}
QUIET = {  # changes of a healthy Prometheus, and whether a check is neither armed nor inert
    "target of another job is down": ({"targets": (AGENT, HUB, target("node", health="down"))}, False),
    "prefix of a job name": ({"targets": (target("train/zmon-agent"), HUB)}, False),
    "before the first scrape": ({"targets": (AGENT, target("zmon-hub", health="unknown"))}, True),
    "before the first evaluation": ({"groups": NEVER, "up_seconds": 1.0}, False),
}


@pytest.mark.parametrize(("changes", "name", "part"), FAULTS.values(), ids=FAULTS)
def test_fault_of_prometheus_is_inert(changes, name, part):
    assert part in inert(checks(healthy(**changes), HOSTS))[name]


@pytest.mark.parametrize(("changes", "is_absent"), QUIET.values(), ids=QUIET)
def test_prometheus_is_not_inert(changes, is_absent):
    results = checks(healthy(**changes), HOSTS)
    assert inert(results) == {}
    assert any(check.armed is None for check in results) == is_absent


def test_target_that_is_down_is_inert_with_its_error():
    down = target(health="down", last_error="connection refused", scrape_url="http://node-b:9780/metrics")
    results = checks(healthy(targets=(target(), target("zmon-hub"), down)), HOSTS)
    assert list(inert(results).values()) == ["zmon-agent is down: connection refused"]
    assert any("curl -s http://node-b:9780/metrics" in check.next_step for check in results)


def test_group_that_is_not_due_yet_does_not_make_the_others_inert():
    seldom = group(last_evaluation=datetime(1, 1, 1, tzinfo=UTC), interval=300.0)
    (check,) = [c for c in checks(healthy(groups=seldom, up_seconds=100.0), HOSTS) if c.name == "rule evaluation"]
    assert check.armed
    assert check.result.endswith(f"not due yet: {seldom[0].name}")
    assert "never" in inert(checks(healthy(groups=seldom, up_seconds=400.0), HOSTS))["rule evaluation"]


def test_link_to_a_directory_without_the_runbooks_is_inert(tmp_path):
    labels = {"zmon_dashboard": "http://dashboard", "zmon_docs": str(tmp_path)}
    results = inert(checks(healthy(external_labels=labels), HOSTS))
    assert str(tmp_path / "docs/runbooks.md") + " does not exist" in results["links in pages"]
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/runbooks.md").write_text("# Runbooks")
    assert inert(checks(healthy(external_labels=labels), HOSTS)) == {}


async def test_answers_of_prometheus_are_read():
    state = await read_prometheus()
    assert (state.now, state.up_seconds, state.config_loaded) == (NOW, 10.0, True)
    assert state.targets[0].scrape_url == "http://node-a:9780/metrics"
    assert state.groups[0].rules[1].name == "ZmonStall"
    assert state.external_labels == {"zmon_docs": "http://docs"}
    assert state.alertmanagers == ("http://am:9093/x",)
    assert state.present == {'up{job=~".*zmon-agent"}'}
    assert state.declared == {"zmon_finding"}
    assert (state.agent_hosts, state.hubs) == ({"node-a"}, {("zmon-hub", "hub:9781")})


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"rules": 500}, "answered 500"),
        ({"targets": 404}, "answered 404"),
        ({"rules": {"status": "success"}}, "does not answer like Prometheus"),
        ({"targets": {"data": {"activeTargets": [{"odd": 1}]}}}, "does not answer like Prometheus"),
        ({"status_config": {"data": {"yaml": "a: [\n"}}}, "does not answer like Prometheus"),
        ({"alertmanagers": "<html>"}, "cannot understand"),
    ],
)
async def test_unexpected_answer_is_inert(changes, reason):
    check = await read_prometheus(**changes)
    assert isinstance(check, Check)
    assert check.armed is False
    assert reason in check.result
    assert len(check.result.splitlines()) == 1
