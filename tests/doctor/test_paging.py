"""Tests of the checks of the delivery of pages. A fault that stops pages makes a check inert."""

import asyncio
from copy import deepcopy

import aiohttp
import pytest

from tests.doctor.scene import ROUTES, inert, pager, serving
from zmon.doctor import Check, Login
from zmon.doctor.paging import ask, checks
from zmon.web.client import basic_auth

METRICS = """# TYPE alertmanager_notifications_total counter
alertmanager_notifications_total{integration="webhook"} 3
# TYPE alertmanager_notifications_failed_total counter
alertmanager_notifications_failed_total{integration="webhook",reason="other"} 2
alertmanager_notifications_failed_total{integration="webhook",reason="serverError"} 1
"""
ALERT = {"labels": {"alertname": "ZmonWatchdog", "cluster": "east"}}
ANSWERS = {
    "/api/v2/status": {"config": {"original": "route: {receiver: pager}\nreceivers: [{name: pager}]"}},
    "/api/v2/alerts": lambda query: [ALERT] if query["filter"] == 'alertname="ZmonWatchdog"' else [],
    "/api/v2/silences": [{"id": "1", "status": {"state": "expired"}}, {"id": "2", "status": {"state": "active"}}],
    "/metrics": METRICS,
}


def read_alertmanager(**changes):
    """Return what doctor reads from an Alertmanager with these answers."""

    async def main():
        answers = ANSWERS | {path.replace("_", "/"): answer for path, answer in changes.items()}
        async with serving(answers) as url, aiohttp.ClientSession() as session:
            return await ask(session, url)

    return asyncio.run(main())


def routes(**changes):
    """Return the healthy routes with changes to the first receiver."""
    config = deepcopy(ROUTES)
    config["receivers"][0] = {"name": "pager", **changes}
    return config


def test_armed_page_names_its_receiver():
    results = checks(pager(), ["dlrm"], 3600.0)
    assert inert(results) == {}
    assert "page ZmonStall" in [check.name for check in results]
    assert any("ends in receiver pager (pagerduty)" in check.result for check in results)


def test_receiver_without_integration_is_inert():
    results = inert(checks(pager(config=routes(webhook_configs=[])), ["dlrm"], 3600.0))
    assert "of job dlrm in receiver pager, which notifies nobody, so pages go nowhere" in results["page ZmonStall"]


def test_route_of_a_job_without_receiver_is_inert():
    config = deepcopy(ROUTES)
    config["route"]["routes"].insert(0, {"receiver": "nobody", "match_re": {"job_id": "test-.*"}})
    assert inert(checks(pager(config=config), ["dlrm"], 3600.0)) == {}
    assert "of job test-1" in inert(checks(pager(config=config), ["dlrm", "test-1"], 3600.0))["page ZmonStall"]


def test_labels_added_by_prometheus_are_matched():
    config = deepcopy(ROUTES)
    config["route"]["routes"].insert(0, {"receiver": "nobody", "match": {"cluster": "east"}})
    assert "page ZmonStall" in inert(checks(pager(config=config), [], 3600.0))


def test_silence_over_every_page_is_inert_and_named():
    silence = {
        "id": "77", "endsAt": "2026-12-01T00:00:00Z", "comment": "maintenance",
        "matchers": [{"name": "severity", "value": "critical", "isRegex": False, "isEqual": True}],
    }  # fmt: skip
    results = checks(pager(silences=(silence,)), ["dlrm"], 3600.0)
    assert "silenced until 2026-12-01T00:00:00Z: maintenance" in inert(results)["page ZmonStall"]
    assert any("Expire silence 77" in check.next_step for check in results)


def test_silence_of_another_job_does_not_matter():
    matcher = {"name": "job_id", "value": "other", "isRegex": False, "isEqual": True}
    silence = {"id": "77", "endsAt": "", "comment": "", "matchers": [matcher]}
    assert inert(checks(pager(silences=(silence,)), ["dlrm"], 3600.0)) == {}


def test_mute_interval_of_a_route_is_named():
    config = deepcopy(ROUTES)
    config["route"]["routes"][1]["mute_time_intervals"] = ["weekend"]
    results = checks(pager(config=config), [], 3600.0)
    assert any("not always: weekend" in check.result for check in results)


def test_matcher_that_cannot_be_evaluated_is_inert():
    config = deepcopy(ROUTES)
    config["route"]["routes"][1]["matchers"] = ['severity=~"(?P<x>["']
    assert "cannot evaluate a matcher" in inert(checks(pager(config=config), [], 3600.0))["page ZmonStall"]


def test_alertmanager_without_the_watchdog_alert_is_inert():
    assert "does not reach it" in inert(checks(pager(watchdog=None), [], 3600.0))["Alertmanager"]


def test_alertmanager_is_not_judged_just_after_the_start_of_prometheus():
    results = checks(pager(watchdog=None), [], 14.0)
    assert inert(results) == {}
    assert results[0].armed is None


def test_integration_whose_notifications_all_failed_is_inert():
    results = inert(checks(pager(sent={"webhook": 3.0}, failed={"webhook": 3.0}), [], 3600.0))
    assert "all 3 notifications" in results["delivery by webhook"]


def test_integration_that_failed_sometimes_is_not_inert():
    assert inert(checks(pager(sent={"webhook": 3.0}, failed={"webhook": 2.0}), [], 3600.0)) == {}


def test_answers_of_alertmanager_are_read():
    pager_or_check = read_alertmanager()
    assert pager_or_check.config["route"] == {"receiver": "pager"}
    assert pager_or_check.watchdog == ALERT["labels"]
    assert [silence["id"] for silence in pager_or_check.silences] == ["2"]
    assert (pager_or_check.sent, pager_or_check.failed) == ({"webhook": 3.0}, {"webhook": 3.0})


def test_alertmanager_without_metrics_is_read():
    assert read_alertmanager(_metrics=403).failed == {}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"_api_v2_status": 500}, "answered 500"),
        ({"_api_v2_status": {}}, "does not answer like Alertmanager"),
        ({"_api_v2_silences": {"odd": 1}}, "does not answer like Alertmanager"),
        ({"_api_v2_alerts": "no JSON"}, "cannot understand"),
    ],
)
def test_unexpected_answer_is_inert(changes, reason):
    pager_or_check = read_alertmanager(**changes)
    assert isinstance(pager_or_check, Check)
    assert pager_or_check.armed is False
    assert reason in pager_or_check.result


def test_password_goes_to_its_alertmanager_only(tmp_path):
    (tmp_path / "password").write_text("secret\n")
    login = Login("http://127.0.0.1:9093", "zmon", tmp_path / "password")
    assert login.headers("http://127.0.0.1:9093/") == basic_auth("zmon", "secret")
    assert login.headers("http://evil.example:9093") == {}
    assert login.headers("http://127.0.0.1:9094") == {}


def test_missing_password_is_not_an_error(tmp_path):
    assert Login("http://127.0.0.1:9093", "zmon", tmp_path / "none").headers("http://127.0.0.1:9093") == {}
