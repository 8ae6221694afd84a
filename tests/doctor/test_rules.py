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
    results = checks(shipped(), healthy())
    assert all(check.armed for check in results)
    names = {"alert ZmonStall", "alert ZmonAgentsAbsent", "alert ZmonWatchdog", "rules zmon-gpus"}
    assert names <= {check.name for check in results}


ERROR = {"health": "err", "last_error": "many-to-many"}
FAULTS = {  # the changed rule, its changes, the check that is inert, and a part of its result
    "not loaded": ("ZmonStall", {"gone": True}, "alert ZmonStall", "is not loaded, so it cannot fire"),
    "cannot be evaluated": ("ZmonStall", ERROR, "alert ZmonStall", "many-to-many"),
    "missing series": (
        "ZmonStall",
        {"query": "max(zmon_old) > 0"},
        "alert ZmonStall",
        "zmon_old, which no scraped page",
    ),
    "record missing": ("zmon:gpu_power:watts", {"gone": True}, "rules zmon-gpus", "zmon:gpu_power:watts"),
    "record fails": ("zmon:gpu_power:watts", ERROR, "rules zmon-gpus", "many-to-many"),
}
ABSENT = {"query": 'absent(up{job="zmon-agent"} == 1)', "state": "firing"}


@pytest.mark.parametrize(("rule", "changes", "name", "part"), FAULTS.values(), ids=FAULTS)
def test_rule_that_cannot_fire_is_inert(rule, changes, name, part):
    results = inert(checks(shipped(), healthy(groups=loaded(rule, **changes))))
    assert list(results) == [name]
    assert part in results[name]


def test_alert_that_fires_on_absent_series_or_was_not_evaluated_yet_is_not_inert():
    assert inert(checks(shipped(), healthy(groups=loaded("ZmonAgentsAbsent", **ABSENT)))) == {}
    results = checks(shipped(), healthy(groups=loaded("ZmonStall", health="unknown")))
    assert [check.armed for check in results if check.name == "alert ZmonStall"] == [None]


def test_alert_on_declared_series_without_samples_is_armed():
    """Without a finding the series has no samples, which is normal."""
    results = checks(shipped(), healthy(present=frozenset(), declared=frozenset({"zmon_finding"})))
    assert inert(results) == {}
    assert any("no series of zmon_finding now" in check.result for check in results)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("vector(1)", ()),
        ('max by (zmon_label) (zmon_finding{cause="zmon_y"})', ("zmon_finding",)),
        ('absent(up{job=~".*zmon-agent"} == 1)', ('up{job=~".*zmon-agent"}',)),
        ('count(up{job=~".*zmon-agent", shard!=""})', ('up{job=~".*zmon-agent"}',)),  # most clusters have no shards
        ("changes(zmon_beat[20s]) or group_up", ("zmon_beat",)),
        ("max(zmon:made:of) > 0", ("zmon_finding", "zmon_beat")),
        ("a / on (job_id) group_left (zmon_label) zmon_b", ("zmon_b",)),
    ],
)
def test_inputs_of_an_expression_are_its_scraped_series(query, expected):
    """A recorded series is replaced by its inputs, even if it is one of its own inputs."""
    recorded = {"zmon:made:of": "zmon_finding > 0 or zmon:made:of unless on () zmon:beat", "zmon:beat": "zmon_beat"}
    assert inputs(query, recorded) == expected
