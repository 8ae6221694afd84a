"""Do the alerts hold what they promise? Prometheus' own checker on rules and rule tests, and what it cannot see."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from zmon import detectors

PROJECT = Path(__file__).parents[2]
RULES = PROJECT / "dashboards" / "rules" / "zmon.yaml"
TESTS = PROJECT / "dashboards" / "rules" / "zmon_test.yaml"
HEADINGS = set(re.findall(r"^## (.+)$", (PROJECT / "docs" / "runbooks.md").read_text(encoding="utf-8"), re.MULTILINE))
CAUSES = sorted({cause for detector in detectors.ALL for cause in detector.causes})
NEVER_QUIET = "ZmonWatchdog"  # a dead-man's switch is the one alert whose silence is the alarm

ALERTS = {
    rule["alert"]: rule
    for group in yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
    if "alert" in rule
}
CASES = [
    (group["name"], case)
    for group in yaml.safe_load(TESTS.read_text(encoding="utf-8"))["tests"]
    for case in group.get("alert_rule_test", ())
]


@pytest.mark.parametrize("command", [("check", "rules", RULES), ("test", "rules", TESTS)], ids=["check", "test"])
def test_promtool_finds_nothing_to_say(command):
    done = subprocess.run(["promtool", *command], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_says_what_how_bad_and_where_to_look(name):
    rule = ALERTS[name]
    assert set(rule["annotations"]) == {"summary", "description", "runbook_url", "dashboard_url"}
    assert rule["labels"]["severity"] in ("info", "warning", "critical")


@pytest.mark.parametrize("name", [*ALERTS, *CAUSES])
def test_every_alert_and_cause_has_a_runbook(name):
    assert name in HEADINGS


def test_every_link_in_a_fired_alert_leads_to_a_heading():
    anchors = {heading.lower() for heading in HEADINGS}
    linked = {
        alert["exp_annotations"]["runbook_url"].partition("#")[2]
        for _, case in CASES
        for alert in case.get("exp_alerts", ())
    }
    assert linked
    assert linked <= anchors


@pytest.mark.parametrize("name", ALERTS)
def test_every_alert_has_a_firing_and_a_quiet_case(name):
    mine = [(group, case) for group, case in CASES if case["alertname"] == name]
    assert any(case["exp_alerts"] for _, case in mine)
    if name != NEVER_QUIET:
        assert any(name in group and group.startswith("quiet") for group, _ in mine)


def test_a_quiet_case_expects_nothing():
    assert not [group for group, case in CASES if group.startswith("quiet") and case["exp_alerts"]]
