"""Tests of the labels of jobs on alerts, with the rules for them and a real promtool: one fault is still one alert."""

import json

import pytest

from dashboards.intervals import ONE_MACHINE
from dashboards.rules.render import rendered
from tests.dashboards.promtool import complaints_about_answers, promtool
from tests.places import REPOSITORY

NAMES = ("team", "tier", "owner")
FINDING = {"__name__": "zmon_finding", "job_id": "ads", "detector": "stall", "cause": "rank_frozen", "rank": "2"}
FINDING |= {"host": "node-1", "severity": "critical", "job": "zmon-hub", "pod": "hub-0", "instance": "a"}
OTHER = {"instance": "b", "pod": "hub-1"}
HERO = {"team": "ads", "tier": "hero"}
ALERT = {"alertname": "ZmonStall", "job_id": "ads", "detector": "stall", "severity": "critical", "alertstate": "firing"}
FIRED = 'count_over_time(ALERTS{alertname=~"ZmonStall|ZmonFinding.*", alertstate="firing"}[58s])'
HEARTBEAT = "zmon_hub_last_pass_timestamp_seconds{instance='a'}"


def selector(labels):
    pairs = ", ".join(f"{name}={json.dumps(value)}" for name, value in labels.items())
    return f"{{{pairs}}}"


def complaints(folder, series, expected, names=NAMES, also=(), query=FIRED):
    """Return what promtool complains about, unless the query has this result after 30 evaluations.

    `series`: pairs of labels that differ from `FINDING`, and values; `expected`: pairs of labels that differ from
    `ALERT`, and values.
    """
    (folder / "zmon.yaml").write_text(rendered(ONE_MACHINE, names)["zmon.yaml"])
    lines = {selector(FINDING | labels): values for labels, values in series} | dict(also)
    samples = {selector(ALERT | labels if labels is not None else {}): number for labels, number in expected}
    return complaints_about_answers(folder, lines, {(query, 58): samples}, rule_files=["zmon.yaml"])


@pytest.mark.parametrize(
    ("series", "expected"),
    [
        pytest.param([(HERO, "1x40")], [(HERO, 30)], id="one hub"),
        pytest.param([(HERO, "1x40"), (HERO | OTHER, "_ 1x40")], [(HERO, 30)], id="two hubs"),
        pytest.param([(HERO, "1x40"), (OTHER, "_ 1x40")], [(HERO, 30)], id="a second hub without the setting"),
        pytest.param([({}, "1x40"), (HERO | OTHER, "_ 1x40")], [({}, 30)], id="a second hub with the setting"),
        pytest.param([(HERO, "1x9 stale"), (OTHER, "_ 1x40")], [(HERO, 30)], id="a hub without the setting is left"),
        pytest.param(
            [(HERO, "1x40"), (HERO | OTHER | {"owner": "ann"}, "_ 1x40")],
            [(HERO, 30)],
            id="a second hub with more labels",
        ),
        pytest.param(
            [(HERO, "1x40"), ({"rank": "3", "tier": "normal"}, "_x5 1x40")],
            [(HERO, 30)],
            id="a second finding with other labels",
        ),
        pytest.param([(HERO, "1x9 stale stale 1x40")], [(HERO, 30)], id="two missed scrapes"),
        pytest.param(
            [(HERO | {"severity": "warning"}, "1x9 stale"), (HERO, "_x10 1x40")],
            [(HERO, 20), (HERO | {"alertname": "ZmonFindingWarning", "severity": "warning"}, 13)],
            id="a warning that becomes critical",
        ),
    ],
)
def test_one_fault_is_one_alert_with_the_labels_of_its_first_report(tmp_path, series, expected):
    assert complaints(tmp_path, series, expected) == ""


def test_two_reports_that_come_together_and_differ_are_one_alert(tmp_path):
    series = [(HERO, "1x40"), (OTHER, "1x40")]
    assert complaints(tmp_path, series, [(None, 1)], query=f"count({FIRED} == 30)") == ""
    assert complaints(tmp_path, series, [(None, 1)], query=f"count({FIRED})") == ""


def test_labels_stay_while_no_hub_answers(tmp_path):
    beat = [(HEARTBEAT, "1000+2x9 stale")]
    assert complaints(tmp_path, [(HERO, "1x9 stale")], [(HERO, 30)], also=beat) == ""


def test_labels_that_the_rules_do_not_name_change_nothing(tmp_path):
    series = [(HERO, "1x40"), (HERO | OTHER | {"owner": "ann"}, "1x40"), (OTHER | {"instance": "c"}, "1x40")]
    assert complaints(tmp_path, series, [({}, 30)], names=()) == ""


def test_rules_with_labels_pass_the_tests_of_those_without(tmp_path):
    """Only tests with findings are run: the rules for all other series are the same."""
    for name, text in rendered(ONE_MACHINE, NAMES).items():
        (tmp_path / name).write_text(text)
    tests = [
        file
        for file in (REPOSITORY / "dashboards/rules").glob("zmon_*_test.yaml")
        if "zmon_finding" in file.read_text()
    ]
    for file in tests:
        (tmp_path / file.name).write_text(file.read_text())
    assert len(tests) >= 3
    assert promtool("test", "rules", *(tmp_path / file.name for file in tests)) == ""


def test_names_are_in_one_rule():
    """The Helm chart adds the names of `hub.alertLabels` to this rule."""
    lines = zip(*(rendered(ONE_MACHINE, names)["zmon.yaml"].splitlines() for names in ((), NAMES)), strict=True)
    ((before, after),) = [pair for pair in lines if pair[0] != pair[1]]
    assert "max by (job_id, detector, severity) (zmon_finding > 0)" in before
    assert "max by (job_id, detector, severity, team, tier, owner) (zmon_finding > 0)" in after
