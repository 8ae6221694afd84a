"""Tests of the recording rules in hardware.yaml.

Each series reads one metric of zmon and the translation of an exporter's metric, and docs/ecosystem.md lists it.
"""

import re

import pytest
import yaml

from tests.places import REPOSITORY
from zmon import metrics

RULES = REPOSITORY / "dashboards" / "rules" / "hardware.yaml"
TESTS = sorted(RULES.parent.glob("hardware_*_test.yaml"))
MAPPING = (REPOSITORY / "docs" / "ecosystem.md").read_text(encoding="utf-8")

RECORDED = {
    rule["record"]: rule["expr"]
    for group in yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
}
VALUES = {name: expr for name, expr in RECORDED.items() if re.match("zmon:(gpu|nic|host)_", name)}
TRANSLATIONS = set(RECORDED) - set(VALUES)


@pytest.mark.parametrize("name", VALUES)
def test_hardware_series_reads_a_zmon_metric_and_an_exporter(name):
    read = set(re.findall(r"\bzmon_\w+", VALUES[name]))
    assert len(read) == 1
    assert read <= set(metrics.SPECS)
    assert any(translation in VALUES[name] for translation in TRANSLATIONS)


@pytest.mark.parametrize("name", VALUES)
def test_hardware_series_has_only_labels_of_its_zmon_metric(name):
    (read,) = set(re.findall(r"\bzmon_\w+", VALUES[name]))
    aggregations = re.findall(r"(?:max|group) by \(([^)]*)\) \(zmon_", VALUES[name])
    assert len(aggregations) == 1
    assert set(aggregations[0].split(", ")) <= set(metrics.SPECS[read].labels)


@pytest.mark.parametrize("name", VALUES)
def test_hardware_series_is_in_table_of_ecosystem_document(name):
    (read,) = set(re.findall(r"\bzmon_\w+", VALUES[name]))
    assert any(f"`{name}`" in line and f"`{read}`" in line for line in MAPPING.splitlines())


def test_every_hardware_series_has_promtool_test():
    tested = "".join(file.read_text(encoding="utf-8") for file in TESTS)
    assert [name for name in VALUES if f"{name}{{" not in tested] == []
