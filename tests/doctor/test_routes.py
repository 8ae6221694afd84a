"""Tests of Alertmanager's routes. The receivers of an alert are the ones that amtool returns."""

import subprocess

import pytest
import yaml

from zmon.doctor.routes import destinations, is_silenced, parse

CONFIG = """
route:
  receiver: top
  routes:
    - receiver: dead
      matchers: ['alertname="ZmonWatchdog"']
    - match: {team: vision}
      receiver: vision
      continue: true
      routes:
        - match_re: {job_id: 'prod-.*|live'}
          receiver: vision-pager
    - matchers: ['severity=~"critical|page"', 'quiet!~"yes|1"']
      routes:
        - {receiver: night, matchers: ['cluster="west"'], mute_time_intervals: [weekend]}
        - {receiver: east, matchers: ['cluster="e,a}st"']}
    - matchers: ['owner=""', 'kind!=""']
      receiver: orphans
receivers:
  - {name: top}
  - {name: dead}
  - {name: vision, slack_configs: [{channel: x, api_url: 'http://127.0.0.1/'}]}
  - {name: vision-pager}
  - {name: night}
  - {name: east}
  - {name: orphans, webhook_configs: []}
time_intervals:
  - name: weekend
    time_intervals: [{weekdays: ['saturday']}]
"""
LABELS = [
    {"alertname": "ZmonWatchdog", "severity": "critical"},
    {"alertname": "ZmonStall"},
    {"alertname": "ZmonStall", "severity": "critical"},
    {"alertname": "ZmonStall", "severity": "critically", "cluster": "west"},
    {"alertname": "ZmonStall", "severity": "critical", "quiet": "yes"},
    {"alertname": "ZmonStall", "severity": "critical", "team": "vision"},
    {"alertname": "ZmonStall", "severity": "info", "team": "vision", "job_id": "prod-7"},
    {"alertname": "ZmonStall", "severity": "page", "team": "vision", "job_id": "no-prod-7"},
    {"alertname": "ZmonStall", "severity": "critical", "cluster": "west"},
    {"alertname": "ZmonStall", "severity": "critical", "cluster": "e,a}st"},
    {"alertname": "ZmonStall", "kind": "x"},
    {"alertname": "ZmonStall", "kind": "x", "owner": "ann"},
]


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    """The path of a file with CONFIG."""
    path = tmp_path_factory.mktemp("routes") / "alertmanager.yml"
    path.write_text(CONFIG)
    return path


@pytest.mark.parametrize("labels", LABELS, ids=lambda labels: ",".join(labels.values()))
def test_receivers_equal_the_answer_of_amtool(config, labels):
    expected = subprocess.run(
        ["amtool", "config", "routes", "test", f"--config.file={config}", *(f"{k}={v}" for k, v in labels.items())],
        capture_output=True, text=True, check=True, timeout=20,
    ).stdout.strip()  # fmt: skip
    assert ",".join(receiver.name for receiver in destinations(yaml.safe_load(CONFIG), labels)) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('alertname="ZmonStall"', [("alertname", "=", "ZmonStall")]),
        ("alertname=ZmonStall", [("alertname", "=", "ZmonStall")]),
        ('{a=~"b|c", d!="e,f}"}', [("a", "=~", "b|c"), ("d", "!=", "e,f}")]),
        ('"a.b" !~ "x\\\\.y\\"z"', [("a.b", "!~", 'x\\.y"z')]),
        ("{a=b,c=d}", [("a", "=", "b"), ("c", "=", "d")]),
        ('a=""', [("a", "=", "")]),
    ],
)
def test_matchers_are_parsed(line, expected):
    assert list(parse(line)) == expected


@pytest.mark.parametrize(
    ("is_regex", "is_equal", "expected"),
    [
        pytest.param(True, True, True, id="matches"),
        pytest.param(True, False, False, id="must not match"),
        pytest.param(False, True, False, id="no regular expression"),
    ],
)
def test_silence_applies_if_all_its_matchers_hold(is_regex, is_equal, expected):
    matchers = [{"name": "alertname", "value": "Zmon.*", "isRegex": is_regex, "isEqual": is_equal}]
    assert is_silenced(matchers, {"alertname": "ZmonStall"}) is expected
