"""Tests of the generated configuration. promtool and amtool accept it, and alerts reach the right receivers."""

import re
import subprocess

import pytest
import yaml

from dashboards.intervals import ONE_MACHINE
from tests.places import REPOSITORY
from zmon.schema.scraping import duration_text
from zmon.stack import RULES
from zmon.stack.config import INTERVAL, alertmanager_yaml, prometheus_yaml

FOLDER = REPOSITORY / "dashboards/rules"


def prometheus_config():
    """Return the prometheus.yml of a stack with two agents."""
    return prometheus_yaml(
        agents=["127.0.0.1:9780", "node-b:9780"], hub="127.0.0.1:9781", alertmanager="127.0.0.1:9093",
        rules=[str(FOLDER / name) for name in RULES], dashboard="http://127.0.0.1:8501", docs="/home/ann/zm on/docs",
    )  # fmt: skip


def run(*command):
    """Run a command that must succeed; return its output."""
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=30, check=True).stdout


def test_promtool_accepts_the_configuration_of_prometheus_and_its_rules(tmp_path):
    (tmp_path / "config.yml").write_text(prometheus_config())
    output = run("promtool", "check", "config", tmp_path / "config.yml")
    assert output.count("rules found") == len(RULES)


def test_every_shipped_rule_file_is_loaded():
    """Alerts of a file that is not loaded never fire, and nothing reports it."""
    shipped = {file.name for file in FOLDER.glob("*.yaml") if not file.stem.endswith("_test")}
    assert set(RULES) == shipped


def test_every_agent_and_the_hub_are_scraped_every_two_seconds():
    config = yaml.safe_load(prometheus_config())
    targets = {job["job_name"]: job["static_configs"][0]["targets"] for job in config["scrape_configs"]}
    assert targets == {"zmon-agent": ["127.0.0.1:9780", "node-b:9780"], "zmon-hub": ["127.0.0.1:9781"]}
    assert config["global"]["scrape_interval"] == config["global"]["evaluation_interval"] == "2s"


def test_shipped_rules_are_made_for_the_scrape_interval_of_the_stack():
    shipped = duration_text(ONE_MACHINE.agents_seconds), duration_text(ONE_MACHINE.hub_seconds)
    assert shipped == (INTERVAL, INTERVAL)


def test_external_labels_with_links_are_dropped_from_alerts():
    config = yaml.safe_load(prometheus_config())
    assert set(config["global"]["external_labels"]) == {"zmon_dashboard", "zmon_docs"}
    assert config["alerting"]["alert_relabel_configs"] == [{"action": "labeldrop", "regex": "zmon_.*"}]


@pytest.mark.parametrize(
    ("alert", "severity", "receiver"),
    [
        ("ZmonStall", "critical", "pager"),
        ("ZmonAgentsAbsent", "critical", "pager"),
        ("ZmonFindingWarning", "warning", "desk"),
        ("ZmonWatchdog", "info", "nobody"),
    ],
)
def test_pager_gets_only_critical_alerts(tmp_path, alert, severity, receiver):
    file = tmp_path / "alertmanager.yml"
    file.write_text(alertmanager_yaml("http://127.0.0.1:5001/"))
    command = ("amtool", "config", "routes", "test", f"--config.file={file}")
    assert run(*command, f"alertname={alert}", f"severity={severity}").strip() == receiver


@pytest.mark.parametrize(("warnings", "desk"), [(None, "http://x/"), ("http://y/", "http://y/")])
def test_pager_and_desk_are_notified_of_resolved_alerts(warnings, desk):
    receivers = {r["name"]: r for r in yaml.safe_load(alertmanager_yaml("http://x/", warnings))["receivers"]}
    assert receivers["pager"]["webhook_configs"] == [{"url": "http://x/", "send_resolved": True}]
    assert receivers["desk"]["webhook_configs"] == [{"url": desk, "send_resolved": True}]
    assert "webhook_configs" not in receivers["nobody"]


def test_notifications_are_grouped_by_severity():
    assert "severity" in yaml.safe_load(alertmanager_yaml("http://x/"))["route"]["group_by"]


def test_scrape_jobs_have_the_names_that_the_rules_select():
    patterns = set(re.findall(r'job=~?"([^"]+)"', (FOLDER / "zmon.yaml").read_text()))
    jobs = [job["job_name"] for job in yaml.safe_load(prometheus_config())["scrape_configs"]]
    assert patterns == {".*zmon-agent"}
    assert "zmon-agent" in jobs
    for name in ("zmon-agent", "monitoring/zmon-agent", "train-zmon-agent"):  # also of PodMonitor and ServiceMonitor
        assert re.fullmatch(*patterns, name)


def test_alerts_named_in_alertmanager_configuration_exist():
    """An inhibition of an alert that was renamed inhibits nothing, without an error."""
    rules = yaml.safe_load((FOLDER / "zmon.yaml").read_text())
    alerts = {rule["alert"] for group in rules["groups"] for rule in group["rules"] if "alert" in rule}
    alert_names = set(re.findall(r"Zmon\w+", alertmanager_yaml("http://x/")))
    assert alert_names <= alerts
