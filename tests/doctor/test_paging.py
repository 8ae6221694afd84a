"""Tests of the checks of the delivery of pages. A fault that stops pages makes a check inert."""

from types import MappingProxyType

import aiohttp
import pytest

from tests.doctor.scene import ROUTES, alertmanager, inert, serving
from zmon.doctor import Check, Login
from zmon.doctor.paging import ask, checks
from zmon.web.client import basic_auth

METRICS = """# TYPE alertmanager_notifications_total counter
alertmanager_notifications_total{integration="webhook"} 5
# TYPE alertmanager_notifications_failed_total counter
alertmanager_notifications_failed_total{integration="webhook",reason="other"} 2
alertmanager_notifications_failed_total{integration="webhook",reason="serverError"} 1
"""
UP_SECONDS = 3600.0  # Prometheus has run for an hour
ALERT = {"labels": {"alertname": "ZmonWatchdog", "cluster": "east"}}
ANSWERS = {
    "/api/v2/status": {"config": {"original": "route: {receiver: pager}\nreceivers: [{name: pager}]"}},
    "/api/v2/alerts": lambda query: [ALERT] if query["filter"] == 'alertname="ZmonWatchdog"' else [],
    "/api/v2/silences": [{"id": "1", "status": {"state": "expired"}}, {"id": "2", "status": {"state": "active"}}],
    "/metrics": METRICS,
}


async def read_alertmanager(changes=MappingProxyType({})):
    """Return what doctor reads from an Alertmanager with these changes of its answers, by path."""
    async with serving(ANSWERS | changes) as url, aiohttp.ClientSession() as session:
        return await ask(session, url)


def routes(**changes):
    """Return the healthy routes with changes to the first receiver."""
    return ROUTES | {"receivers": [{"name": "pager", **changes}, *ROUTES["receivers"][1:]]}


def with_route(route):
    """Return the healthy routes after another one."""
    return ROUTES | {"route": ROUTES["route"] | {"routes": [route, *ROUTES["route"]["routes"]]}}


MATCHER = {"name": "job_id", "value": "other", "isRegex": False, "isEqual": True}
BAD_MATCHER = {"receiver": "pager", "matchers": ['severity=~"(?P<x>["']}
BY_CLUSTER = {"receiver": "nobody", "match": {"cluster": "east"}}  # a label that Prometheus adds
FAULTS = {  # changes of a healthy Alertmanager, the check that is inert, and a part of its result
    "receiver without integration": (
        {"config": routes(webhook_configs=[])}, "page ZmonStall",
        "of job dlrm in receiver pager, which notifies nobody, so pages go nowhere",
    ),
    "route of a label of Prometheus": ({"config": with_route(BY_CLUSTER)}, "page ZmonStall", "nobody"),
    "matcher that cannot be evaluated": ({"config": with_route(BAD_MATCHER)}, "page ZmonStall", "cannot evaluate"),
    "no watchdog alert": ({"watchdog": None}, "Alertmanager", "does not reach it"),
    "all notifications failed": (
        {"sent": {"webhook": 3.0}, "failed": {"webhook": 3.0}}, "delivery by webhook", "all 3 notifications"
    ),
}  # fmt: skip
QUIET = {
    "some notifications failed": {"sent": {"webhook": 3.0}, "failed": {"webhook": 2.0}},
    "silence of another job": {"silences": ({"id": "77", "endsAt": "", "comment": "", "matchers": [MATCHER]},)},
}


def test_armed_page_names_its_receiver():
    results = checks(alertmanager(), ["dlrm"], UP_SECONDS)
    assert inert(results) == {}
    assert "page ZmonStall" in [check.name for check in results]
    assert any("ends in receiver pager (pagerduty)" in check.result for check in results)


@pytest.mark.parametrize(("changes", "name", "part"), FAULTS.values(), ids=FAULTS)
def test_fault_of_delivery_makes_its_check_inert(changes, name, part):
    assert part in inert(checks(alertmanager(**changes), ["dlrm"], UP_SECONDS))[name]


@pytest.mark.parametrize("changes", QUIET.values(), ids=QUIET)
def test_partial_failures_and_other_silences_leave_all_checks_armed(changes):
    assert inert(checks(alertmanager(**changes), ["dlrm"], UP_SECONDS)) == {}


def test_mute_interval_of_a_route_is_named():
    muted = with_route({"receiver": "pager", "matchers": ['severity="critical"'], "mute_time_intervals": ["weekend"]})
    assert any("not always: weekend" in check.result for check in checks(alertmanager(config=muted), [], UP_SECONDS))


def test_route_of_a_job_without_receiver_is_inert():
    config = with_route({"receiver": "nobody", "match_re": {"job_id": "test-.*"}})
    assert inert(checks(alertmanager(config=config), ["dlrm"], UP_SECONDS)) == {}
    results = inert(checks(alertmanager(config=config), ["dlrm", "test-1"], UP_SECONDS))
    assert "of job test-1" in results["page ZmonStall"]
    assert "page ZmonAgentsAbsent" not in results


def test_page_about_no_job_is_not_that_of_a_job():
    """It has no label job_id, so a route for jobs does not take it."""
    config = with_route({"receiver": "pager", "match_re": {"job_id": ".+"}})
    ours, watchdog, _ = config["route"]["routes"]
    config["route"]["routes"] = [ours, watchdog, {"receiver": "nobody", "match": {"severity": "critical"}}]
    results = inert(checks(alertmanager(config=config), ["dlrm"], UP_SECONDS))
    assert "page ZmonAgentsAbsent" in results
    assert "page ZmonStall" not in results


def test_silence_over_every_page_is_inert():
    silence = {
        "id": "77", "endsAt": "2026-12-01T00:00:00Z", "comment": "maintenance",
        "matchers": [{"name": "severity", "value": "critical", "isRegex": False, "isEqual": True}],
    }  # fmt: skip
    results = checks(alertmanager(silences=(silence,)), ["dlrm"], UP_SECONDS)
    assert "silenced until 2026-12-01T00:00:00Z: maintenance" in inert(results)["page ZmonStall"]
    assert any("Expire silence 77" in check.next_step for check in results)


def test_alertmanager_is_not_judged_just_after_the_start_of_prometheus():
    results = checks(alertmanager(watchdog=None), [], 14.0)
    assert inert(results) == {}
    assert results[0].armed is None


async def test_answers_of_alertmanager_are_read():
    state = await read_alertmanager()
    assert state.config["route"] == {"receiver": "pager"}
    assert state.watchdog == ALERT["labels"]
    assert [silence["id"] for silence in state.silences] == ["2"]
    assert (state.sent, state.failed) == ({"webhook": 5.0}, {"webhook": 3.0})


async def test_alertmanager_whose_metrics_may_not_be_read_has_no_failed_notifications():
    assert (await read_alertmanager({"/metrics": 403})).failed == {}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"/api/v2/status": 500}, "answered 500"),
        ({"/api/v2/status": 401}, "answered 401"),
        ({"/api/v2/status": {}}, "does not answer like Alertmanager"),
        ({"/api/v2/silences": {"odd": 1}}, "does not answer like Alertmanager"),
        ({"/api/v2/alerts": "no JSON"}, "cannot understand"),
    ],
)
async def test_unexpected_answer_is_inert(changes, reason):
    check = await read_alertmanager(changes)
    assert isinstance(check, Check)
    assert check.armed is False
    assert reason in check.result
    assert "--http-config" not in check.result  # it has no section for Alertmanager


def test_password_goes_to_its_alertmanager_only(tmp_path):
    (tmp_path / "password").write_text("secret\n")
    login = Login("http://127.0.0.1:9093", "zmon", tmp_path / "password")
    assert login.headers("http://127.0.0.1:9093/") == basic_auth("zmon", "secret")
    assert login.headers("http://evil.example:9093") == {}
    assert login.headers("http://127.0.0.1:9094") == {}
    assert Login("http://127.0.0.1:9093", "zmon", tmp_path / "none").headers("http://127.0.0.1:9093") == {}  # no error
