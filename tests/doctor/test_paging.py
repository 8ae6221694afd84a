"""Would a page reach anybody? Each way in which it would not, by name."""

import asyncio
from copy import deepcopy

import aiohttp
import pytest

from tests.doctor.scene import ROUTES, inert, pager, serving
from zmon.doctor import Check
from zmon.doctor.paging import ask, checks

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


def asked(**changes):
    """What doctor reads of an Alertmanager that answers so."""

    async def main():
        answers = ANSWERS | {path.replace("_", "/"): answer for path, answer in changes.items()}
        async with serving(answers) as url, aiohttp.ClientSession() as session:
            return await ask(session, url)

    return asyncio.run(main())


def routes(**changes):
    """The routes that are well, with the first receiver changed so."""
    config = deepcopy(ROUTES)
    config["receivers"][0] = {"name": "pager", **changes}
    return config


def test_page_that_somebody_gets_is_armed_and_says_who():
    found = checks(pager(), ["dlrm"], 3600.0)
    assert inert(found) == {}
    assert "page ZmonStall" in [check.name for check in found]
    assert any("ends in receiver pager (pagerduty)" in check.found for check in found)


def test_receiver_without_integration_is_inert():
    found = inert(checks(pager(config=routes(webhook_configs=[])), ["dlrm"], 3600.0))
    assert "of job dlrm in receiver pager, which tells nobody: pages go nowhere" in found["page ZmonStall"]


def test_page_of_one_job_alone_that_goes_nowhere_is_inert():
    config = deepcopy(ROUTES)
    config["route"]["routes"].insert(0, {"receiver": "nobody", "match_re": {"job_id": "test-.*"}})
    assert inert(checks(pager(config=config), ["dlrm"], 3600.0)) == {}
    assert "of job test-1" in inert(checks(pager(config=config), ["dlrm", "test-1"], 3600.0))["page ZmonStall"]


def test_labels_that_prometheus_adds_take_part():
    config = deepcopy(ROUTES)
    config["route"]["routes"].insert(0, {"receiver": "nobody", "match": {"cluster": "east"}})
    assert "page ZmonStall" in inert(checks(pager(config=config), [], 3600.0))


def test_silence_over_every_page_is_inert_and_named():
    silence = {
        "id": "77", "endsAt": "2026-12-01T00:00:00Z", "comment": "maintenance",
        "matchers": [{"name": "severity", "value": "critical", "isRegex": False, "isEqual": True}],
    }  # fmt: skip
    found = checks(pager(silences=(silence,)), ["dlrm"], 3600.0)
    assert "silenced until 2026-12-01T00:00:00Z: maintenance" in inert(found)["page ZmonStall"]
    assert any("End silence 77" in check.next_step for check in found)


def test_silence_over_another_job_silences_no_page():
    matcher = {"name": "job_id", "value": "other", "isRegex": False, "isEqual": True}
    silence = {"id": "77", "endsAt": "", "comment": "", "matchers": [matcher]}
    assert inert(checks(pager(silences=(silence,)), ["dlrm"], 3600.0)) == {}


def test_route_that_is_muted_at_times_is_armed_and_says_so():
    config = deepcopy(ROUTES)
    config["route"]["routes"][1]["mute_time_intervals"] = ["weekend"]
    found = checks(pager(config=config), [], 3600.0)
    assert any("not always: weekend" in check.found for check in found)


def test_matcher_that_cannot_be_followed_is_no_proof():
    config = deepcopy(ROUTES)
    config["route"]["routes"][1]["matchers"] = ['severity=~"(?P<x>["']
    assert "cannot be followed" in inert(checks(pager(config=config), [], 3600.0))["page ZmonStall"]


def test_alertmanager_without_the_alert_that_always_fires_is_inert():
    assert "does not get through" in inert(checks(pager(watchdog=None), [], 3600.0))["Alertmanager"]


def test_alertmanager_is_not_judged_while_prometheus_just_began():
    found = checks(pager(watchdog=None), [], 14.0)
    assert inert(found) == {}
    assert found[0].armed is None


def test_integration_of_which_nothing_got_through_is_inert():
    found = inert(checks(pager(sent={"webhook": 3.0}, failed={"webhook": 3.0}), [], 3600.0))
    assert "all 3 notifications" in found["delivery by webhook"]


def test_integration_that_failed_at_times_is_quiet():
    assert inert(checks(pager(sent={"webhook": 3.0}, failed={"webhook": 2.0}), [], 3600.0)) == {}


def test_alertmanager_is_read():
    found = asked()
    assert found.config["route"] == {"receiver": "pager"}
    assert found.watchdog == ALERT["labels"]
    assert [silence["id"] for silence in found.silences] == ["2"]
    assert (found.sent, found.failed) == ({"webhook": 3.0}, {"webhook": 3.0})


def test_alertmanager_that_hides_its_metrics_is_read_all_the_same():
    assert asked(_metrics=403).failed == {}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"_api_v2_status": 500}, "answered 500"),
        ({"_api_v2_status": {}}, "not Alertmanager"),
        ({"_api_v2_silences": {"odd": 1}}, "not Alertmanager"),
        ({"_api_v2_alerts": "no JSON"}, "cannot understand"),
    ],
)
def test_what_answers_oddly_is_inert(changes, said):
    found = asked(**changes)
    assert isinstance(found, Check)
    assert found.armed is False
    assert said in found.found
