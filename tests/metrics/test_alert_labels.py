"""Tests of the names of labels on alerts: none may have a meaning of its own in zmon, Prometheus or Alertmanager."""

import pytest
import yaml

from tests.places import REPOSITORY
from zmon.metrics.alert_labels import RESERVED, name_problem
from zmon.metrics.names import SPECS


@pytest.mark.parametrize("name", ["team", "tier", "owner", "cost_center", "T2"])
def test_name_that_a_site_may_choose_has_no_problem(name):
    assert name_problem(name) == ""


@pytest.mark.parametrize("name", [*SPECS["zmon_finding"].labels, "shard", "job", "instance", "alertname", "pod"])
def test_labels_of_zmon_and_of_prometheus_are_refused(name):
    assert name in name_problem(name)


def test_every_label_that_an_alert_has_is_reserved():
    rules = yaml.safe_load((REPOSITORY / "dashboards/rules/zmon.yaml").read_text())
    names = {name for group in rules["groups"] for rule in group["rules"] for name in rule.get("labels", {})}
    assert names - {"daemon"} == {"severity"}  # `daemon` is of a recorded series, and no alert has it
    assert {"severity", "detector", "job_id"} <= RESERVED
