"""Tests of the alert rules. Alerts have texts, severities and runbooks."""

import re

import pytest
import yaml

from dashboards.intervals import CLUSTER, ONE_MACHINE
from dashboards.rules.render import rendered
from tests.dashboards.sampling import RECORDED
from tests.places import REPOSITORY
from zmon import detectors, metrics
from zmon.detectors.stall import Stall
from zmon.detectors.unread import Unread


def parsed(file):
    """Return the content of a YAML file; libyaml is ten times as fast as Python, and each test process reads all."""
    return yaml.load(file.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)


RULES = REPOSITORY / "dashboards" / "rules" / "zmon.yaml"
PANELS = RULES.with_name("panels.yaml")
TESTS = sorted([*RULES.parent.glob("zmon_*_test.yaml"), RULES.with_name("panels_test.yaml")])
RUNBOOKS = (REPOSITORY / "docs" / "runbooks.md").read_text(encoding="utf-8")
HEADINGS = re.findall(r"^## (.+)$", RUNBOOKS, re.MULTILINE)
CONTRACT = {  # all causes of these detectors, which other tools may rely on: none is renamed, a new one is added here
    "stall": "rank_exited uneven_end connection_lost rendezvous_failed crash_loop launcher_gone sequence_lag "
    "rank_frozen host_lost compute_hang input_stall collective_mismatch network_stall lease_overrun unknown",
    "straggler": "compute_straggler input_straggler offload_straggler network_slow thermal_throttle host_pressure "
    "unknown",
    "imbalance": "all_to_all_skew lookup_skew work_imbalance input_jitter compute_jitter stage_imbalance",
    "slowdown": "network input memory unknown",
    "efficiency": "below_baseline",
    "input_bound": "input_bound",
    "divergence": "divergence",
}
CAUSES = sorted(
    {cause for detector in (*detectors.ALL, Unread()) for cause in detector.causes}
    | {cause for causes in CONTRACT.values() for cause in causes.split()}
)
NEVER_QUIET = "ZmonWatchdog"  # a dead-man's switch: its silence is the alarm

ALERTS = {rule["alert"]: rule for group in parsed(RULES)["groups"] for rule in group["rules"] if "alert" in rule}
CASES = [
    (group["name"], case)
    for file in TESTS
    for group in parsed(file)["tests"]
    for case in group.get("alert_rule_test", ())
]


@pytest.mark.parametrize("name", ALERTS)
def test_alert_has_texts_links_and_severity(name):
    rule = ALERTS[name]
    assert set(rule["annotations"]) == {"summary", "description", "runbook_url", "dashboard_url"}
    assert rule["labels"]["severity"] in ("info", "warning", "critical")


def test_headings_of_runbooks_are_exactly_alerts_and_causes():
    assert sorted(HEADINGS) == sorted([*ALERTS, *CAUSES])


@pytest.mark.parametrize("name", HEADINGS)
def test_runbook_has_two_list_items_and_code(name):
    section = RUNBOOKS.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
    assert len(re.findall(r"^(?:\d\.|-) ", section, re.MULTILINE)) >= 2
    assert "`" in section


@pytest.mark.parametrize(
    "detector",
    [detector for detector in detectors.ALL if detector.name in CONTRACT],
    ids=lambda detector: detector.name,
)
def test_causes_of_detector_are_within_contract(detector):
    assert set(detector.causes) <= set(CONTRACT[detector.name].split())


def test_alert_reads_only_findings_of_its_severity():
    for name, rule in ALERTS.items():
        severities = set(re.findall(r'severity="(\w+)"', re.sub(r"unless[^\n]*", "", rule["expr"])))
        assert severities <= {rule["labels"]["severity"]}, name


@pytest.mark.parametrize(
    ("intervals", "delay"), [(ONE_MACHINE, 2 + 2), (CLUSTER, 15 + 2)], ids=["one machine", "cluster"]
)
def test_backstop_waits_as_long_as_the_stall_detector(intervals, delay):
    """The rule repeats two thresholds of the detector, because it must work without the hub.

    The last scrape and evaluation that see a pause come later, by the delay: the seconds between two of each.
    """
    rules = [rule for group in yaml.safe_load(rendered(intervals)["zmon.yaml"])["groups"] for rule in group["rules"]]
    (rule,) = [rule for rule in rules if rule.get("alert") == "ZmonLeaseOverdue"]
    stall = Stall()
    assert f"(zmon_lease_overdue_seconds) > {stall.critical_at_most_seconds:g}\n" in rule["expr"]
    assert rule["for"] == f"{stall.critical_seconds + delay:g}s"


@pytest.mark.parametrize("file", [RULES, RULES.with_name("hardware.yaml"), PANELS], ids=lambda file: file.stem)
def test_every_series_of_a_rule_is_exported_or_recorded(file):
    rules = [rule for group in parsed(file)["groups"] for rule in group["rules"]]
    text = "\n".join([*(rule["expr"] for rule in rules), *(str(rule.get("annotations", "")) for rule in rules)])
    metric_names = set(re.findall(r"\bzmon_[a-z_]+[a-z]\b", text)) - {"zmon_docs", "zmon_dashboard"}
    assert metric_names
    assert metric_names <= set(metrics.SPECS)
    assert set(re.findall(r"\bzmon:\w+:\w+", text)) <= RECORDED


def test_runbook_link_of_each_tested_alert_leads_to_heading():
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
    cases = [(group, case) for group, case in CASES if case["alertname"] == name]
    assert any(case["exp_alerts"] for _, case in cases)
    if name != NEVER_QUIET:
        assert any(name in group and group.startswith("quiet") for group, _ in cases)


def test_quiet_case_expects_no_alerts():
    assert not [group for group, case in CASES if group.startswith("quiet") and case["exp_alerts"]]
