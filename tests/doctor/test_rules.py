"""Tests of the checks of alert rules. An alert that can never fire is inert, with the missing series."""

import pytest

from tests.doctor.scene import healthy, inert, rules
from zmon.doctor.rules import checks, inputs, shipped


def loaded(name, **changes):
    """Return all rules of zmon with one rule changed, or without it for `gone`."""
    groups = rules()
    for group in groups:
        for rule in list(group.rules):
            if rule.name == name:
                group.rules.remove(rule) if changes == {"gone": True} else [
                    setattr(rule, key, value) for key, value in changes.items()
                ]
    return groups


def test_complete_rules_are_armed():
    assert all(check.armed for check in checks(shipped(), healthy()))


def test_every_alert_and_group_of_recording_rules_has_a_check():
    names = {check.name for check in checks(shipped(), healthy())}
    assert {"alert ZmonStall", "alert ZmonAgentsAbsent", "alert ZmonWatchdog", "rules zmon-gpus"} <= names


def test_alert_that_is_not_loaded_is_inert():
    results = checks(shipped(), healthy(groups=loaded("ZmonStall", gone=True)))
    assert inert(results) == {"alert ZmonStall": "is not loaded, so it cannot fire"}


def test_alert_that_cannot_be_evaluated_is_inert_with_the_reason():
    groups = loaded("ZmonStall", health="err", last_error="many-to-many matching not allowed")
    assert "many-to-many" in inert(checks(shipped(), healthy(groups=groups)))["alert ZmonStall"]


def test_alert_before_its_first_evaluation_is_absent():
    groups = loaded("ZmonStall", health="unknown")
    (check,) = (c for c in checks(shipped(), healthy(groups=groups)) if c.name == "alert ZmonStall")
    assert check.armed is None


def test_alert_on_missing_series_is_inert_and_names_them():
    groups = loaded("ZmonStall", query="max(zmon_findings_of_old) > 0")
    results = inert(checks(shipped(), healthy(groups=groups)))
    assert list(results) == ["alert ZmonStall"]
    assert "zmon_findings_of_old, which no scraped page has" in results["alert ZmonStall"]


def test_alert_on_declared_series_without_samples_is_armed():
    """Without a finding the series has no samples, which is normal."""
    results = checks(shipped(), healthy(present=frozenset(), declared=frozenset({"zmon_finding"})))
    assert inert(results) == {}
    assert any("no series of zmon_finding now" in check.result for check in results)


def test_alert_that_fires_on_absent_series_is_armed():
    groups = loaded("ZmonAgentsAbsent", query='absent(up{job="zmon-agent"} == 1)', state="firing")
    assert inert(checks(shipped(), healthy(groups=groups))) == {}


def test_recording_rules_that_are_missing_or_fail_are_named():
    groups = loaded("zmon:gpu_power:watts", gone=True)
    assert "zmon:gpu_power:watts" in inert(checks(shipped(), healthy(groups=groups)))["rules zmon-gpus"]
    groups = loaded("zmon:gpu_power:watts", health="err", last_error="duplicate series")
    assert "duplicate series" in inert(checks(shipped(), healthy(groups=groups)))["rules zmon-gpus"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("vector(1)", ()),
        ('max by (zmon_label) (zmon_finding{cause="zmon_y"})', ("zmon_finding",)),
        ('absent(up{job=~".*zmon-agent"} == 1)', ('up{job=~".*zmon-agent"}',)),
        ("changes(zmon_beat[20s]) or group_up", ("zmon_beat",)),
        ("max(zmon:made:of) > 0", ("zmon_finding", "zmon_beat")),
        ("a / on (job_id) group_left (zmon_label) zmon_b", ("zmon_b",)),
    ],
)
def test_inputs_of_an_expression_are_its_scraped_series(query, expected):
    """A recorded series is replaced by its inputs, even if it is one of its own inputs."""
    recorded = {"zmon:made:of": "zmon_finding > 0 or zmon:made:of unless on () zmon:beat", "zmon:beat": "zmon_beat"}
    assert inputs(query, recorded) == expected
