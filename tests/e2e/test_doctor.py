"""Tests of `zmon doctor` on the running stack. Its checks follow a page from the rule to the webhook."""

from __future__ import annotations

import json
from typing import Any

from tests.e2e.running_stack import HOST, RunningStack, wait_for
from zmon.doctor.paging import RESEND_SECONDS


def run_checks(stack: RunningStack, *options: str) -> dict[str, dict[str, Any]]:
    """Run `zmon doctor` and return its checks by name."""
    answer = stack.zmon("doctor", "--json", *options)
    assert answer.returncode in (0, 1), answer.stderr
    return {check["name"]: check for check in json.loads(answer.stdout)["checks"]}


def test_checks_on_the_path_of_a_page_are_armed(stack):
    def checks_after_watchdog() -> dict[str, dict[str, Any]] | None:
        by_name = run_checks(stack)
        return by_name if by_name["Alertmanager"]["armed"] else None

    by_name = wait_for("ZmonWatchdog arrives", checks_after_watchdog, RESEND_SECONDS + 30)
    path = ("agents", "hub", "Prometheus", "scrape", "rule evaluation", "links in pages", "page ZmonStall")
    assert {name: by_name[name]["found"] for name in path if not by_name[name]["armed"]} == {}
    rules = {name: check for name, check in by_name.items() if name.startswith(("alert ", "rules "))}
    assert {name: check["found"] for name, check in rules.items() if not check["armed"]} == {}
    assert {"alert ZmonStall", "alert ZmonLeaseOverdue", "alert ZmonHubDown"} <= set(rules)
    assert "webhook" in by_name["page ZmonStall"]["found"]
    assert HOST in by_name["agent"]["found"]
