"""`zmon doctor` on the standing stack: what it says is armed was followed from the rule to the webhook."""

from __future__ import annotations

import json
from typing import Any

from tests.e2e.standing import HOST, Running, wait_for
from zmon.doctor.paging import RESEND_SECONDS


def checks(stack: Running, *options: str) -> dict[str, dict[str, Any]]:
    """By name."""
    answer = stack.zmon("doctor", "--json", *options)
    assert answer.returncode in (0, 1), answer.stderr
    return {check["name"]: check for check in json.loads(answer.stdout)["checks"]}


def test_way_of_a_page_is_armed_from_the_rule_to_the_webhook(stack: Running) -> None:
    def arrived() -> dict[str, dict[str, Any]] | None:
        found = checks(stack)
        return found if found["Alertmanager"]["armed"] else None

    found = wait_for("ZmonWatchdog arrives", arrived, RESEND_SECONDS + 30)
    way = ("agents", "hub", "Prometheus", "scrape", "rule evaluation", "links in pages", "page ZmonStall")
    assert {name: found[name]["found"] for name in way if not found[name]["armed"]} == {}
    rules = {name: check for name, check in found.items() if name.startswith(("alert ", "rules "))}
    assert {name: check["found"] for name, check in rules.items() if not check["armed"]} == {}
    assert {"alert ZmonStall", "alert ZmonLeaseOverdue", "alert ZmonHubDown"} <= set(rules)
    assert "webhook" in found["page ZmonStall"]["found"]
    assert HOST in found["agent"]["found"]


def test_prometheus_that_is_not_there_is_inert(stack: Running) -> None:
    found = checks(stack, "--prometheus", "http://127.0.0.1:1")
    assert found["Prometheus"]["armed"] is False
    assert "Connection refused" in found["Prometheus"]["found"]
    assert found["hub"]["armed"]
