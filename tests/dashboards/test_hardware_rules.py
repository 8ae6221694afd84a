"""The recording rules of hardware: promtool's checks and tests, and the names that docs/ecosystem.md lists."""

import re
import subprocess

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


@pytest.mark.parametrize("command", [("check", "rules", RULES), ("test", "rules", *TESTS)], ids=["check", "test"])
def test_promtool_reports_no_error(command):
    done = subprocess.run(["promtool", *command], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", VALUES)
def test_a_value_comes_from_zmon_or_else_from_an_exporter(name):
    read = set(re.findall(r"\bzmon_\w+", VALUES[name]))
    assert len(read) == 1
    assert read <= set(metrics.SPECS)
    assert any(translation in VALUES[name] for translation in TRANSLATIONS)


@pytest.mark.parametrize("name", VALUES)
def test_a_value_has_the_labels_of_zmon(name):
    (read,) = set(re.findall(r"\bzmon_\w+", VALUES[name]))
    aggregations = re.findall(r"(?:max|group) by \(([^)]*)\) \(zmon_", VALUES[name])
    assert len(aggregations) == 1
    assert set(aggregations[0].split(", ")) <= set(metrics.SPECS[read].labels)


@pytest.mark.parametrize("name", VALUES)
def test_a_value_is_in_the_table_of_the_document(name):
    (read,) = set(re.findall(r"\bzmon_\w+", VALUES[name]))
    assert any(f"`{name}`" in line and f"`{read}`" in line for line in MAPPING.splitlines())


def test_every_value_is_tested():
    tested = "".join(file.read_text(encoding="utf-8") for file in TESTS)
    assert [name for name in VALUES if f"{name}{{" not in tested] == []
