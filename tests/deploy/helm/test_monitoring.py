"""Tests of what the chart gives Prometheus, its operator and Grafana: monitors, rules, pages, and notes about them."""

import yaml

from dashboards.intervals import CLUSTER
from dashboards.rules.render import rendered
from tests.deploy.helm.api_server import OPTIONAL
from tests.deploy.helm.conftest import CHART, ISSUER, WITHOUT_OPERATOR, install
from zmon.hub.alert_labels import read_alert_labels


def test_agents_keep_within_the_limit_at_which_prometheus_drops_a_scrape():
    release = install(ISSUER | {"monitoring": {"sampleLimit": {"agent": 7000}}})
    assert release.of("PodMonitor")["spec"]["sampleLimit"] == 7000
    assert "--max-series=7000" in release.of("DaemonSet")["spec"]["template"]["spec"]["containers"][0]["args"]


def test_notes_say_that_nothing_pages_without_the_operator():
    release = install(ISSUER, WITHOUT_OPERATOR)
    assert release.error == ""
    assert {thing["kind"] for thing in release}.isdisjoint(OPTIONAL["monitoring.coreos.com/v1"])
    assert "nothing pages" in release.notes


def test_notes_name_the_missing_label_of_the_operator(installed):
    assert "release: NAME" in install(ISSUER).notes
    assert "release: NAME" not in installed("default").notes


def test_rules_and_grafana_are_the_generated_files_and_no_template_is_evaluated(installed):
    objects = installed("default")
    rules = sorted((CHART / "files/rules").glob("*.yaml"))
    pages = sorted((CHART / "files/grafana").glob("*.json"))
    assert rules
    assert pages
    for path in rules:
        assert objects.of("PrometheusRule", f"zmon-{path.stem}")["spec"] == yaml.safe_load(path.read_text())
    for path in pages:
        data = objects.of("ConfigMap", f"zmon-grafana-{path.stem}")["data"]
        assert data == {f"zmon-{path.name}": path.read_text()}


def test_labels_of_alerts_are_for_hub_and_rules_alike(installed):
    objects = installed("secrets")
    (hub,) = objects.of("StatefulSet")["spec"]["template"]["spec"]["containers"]
    (declared,) = [variable["value"] for variable in hub["env"] if variable["name"] == "ZMON_ALERT_LABELS"]
    assert list(read_alert_labels(yaml.safe_load(declared), "").patterns) == ["owner", "tier"]
    expected = yaml.safe_load(rendered(CLUSTER, ["owner", "tier"])["zmon.yaml"])
    assert objects.of("PrometheusRule", "zmon-zmon")["spec"] == expected


def test_monitors_scrape_one_service_of_the_hub_every_2_s_and_agents_every_15_s(installed):
    objects = installed("default")
    assert objects.of("ServiceMonitor")["spec"]["endpoints"][0]["interval"] == "2s"
    assert objects.of("PodMonitor")["spec"]["podMetricsEndpoints"][0]["interval"] == "15s"
    # Prometheus calls the scrape job NAMESPACE/NAME, and the alert rules find agents by the end of this name.
    assert objects.of("PodMonitor")["metadata"]["name"].endswith("zmon-agent")
    wanted = objects.of("ServiceMonitor")["spec"]["selector"]["matchLabels"].items()
    services = [thing for thing in objects if thing["kind"] == "Service"]
    assert [s["metadata"]["name"] for s in services if wanted <= s["metadata"]["labels"].items()] == ["zmon-hub"]
