"""Tests of the checks of alert rules. An alert that can never fire is inert, with the missing series."""

import pytest

from tests.doctor.scene import healthy, inert, rules
from zmon.doctor.rules import checks, inputs, shipped


def with_changed(name, **changes):
    """Return all rules of zmon, one of which is changed."""
    groups = rules()
    (changed,) = [rule for group in groups for rule in group.rules if rule.name == name]
    for field, value in changes.items():
        setattr(changed, field, value)
    return groups


def without(name):
    """Return all rules of zmon except one."""
    groups = rules()
    for group in groups:
        group.rules[:] = [rule for rule in group.rules if rule.name != name]
    return groups


def test_complete_rules_are_armed():
    results = checks(shipped(), healthy())
    assert all(check.armed for check in results)
    names = {"alert ZmonStall", "alert ZmonAgentsAbsent", "alert ZmonWatchdog", "rules zmon-gpus"}
    assert names <= {check.name for check in results}


ERROR = {"health": "err", "last_error": "many-to-many"}
OLD_SERIES = {"query": "max(zmon_old) > 0"}
FAULTS = {  # the rules, the check that is inert, and a part of its result
    "alert is not loaded": (without("ZmonStall"), "alert ZmonStall", "is not loaded, so it cannot fire"),
    "alert fails": (with_changed("ZmonStall", **ERROR), "alert ZmonStall", "many-to-many"),
    "series is missing": (with_changed("ZmonStall", **OLD_SERIES), "alert ZmonStall", "zmon_old, which no scraped"),
    "record is not loaded": (without("zmon:gpu_power:watts"), "rules zmon-gpus", "zmon:gpu_power:watts"),
    "record fails": (with_changed("zmon:gpu_power:watts", **ERROR), "rules zmon-gpus", "many-to-many"),
}
ABSENT = {"query": 'absent(up{job="zmon-agent"} == 1)', "state": "firing"}
AGENTS_UP = 'up{job=~".*zmon-agent"}'


@pytest.mark.parametrize(("groups", "name", "part"), FAULTS.values(), ids=FAULTS)
def test_rule_that_cannot_fire_is_inert(groups, name, part):
    results = inert(checks(shipped(), healthy(groups=groups)))
    assert list(results) == [name]
    assert part in results[name]


def test_alert_that_fires_on_absent_series_is_armed():
    results = checks(shipped(), healthy(groups=with_changed("ZmonAgentsAbsent", **ABSENT)))
    assert [check.armed for check in results if check.name == "alert ZmonAgentsAbsent"] == [True]


def test_alert_that_was_not_evaluated_yet_is_unknown():
    results = checks(shipped(), healthy(groups=with_changed("ZmonStall", health="unknown")))
    assert [check.armed for check in results if check.name == "alert ZmonStall"] == [None]


def test_alert_on_declared_series_without_samples_is_armed():
    """Without a finding the series has no samples, which is normal."""
    results = checks(shipped(), healthy(present=frozenset(), declared=frozenset({"zmon_finding"})))
    assert inert(results) == {}
    assert any("no series of zmon_finding now" in check.result for check in results)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        pytest.param("vector(1)", (), id="no series"),
        pytest.param('max by (zmon_label) (zmon_finding{cause="zmon_y"})', ("zmon_finding",), id="label is no series"),
        pytest.param('absent(up{job=~".*zmon-agent"} == 1)', (AGENTS_UP,), id="matcher of the job is kept"),
        # most clusters have no shards
        pytest.param('count(up{job=~".*zmon-agent", shard!=""})', (AGENTS_UP,), id="other matchers are left out"),
        pytest.param("changes(zmon_beat[20s]) or group_up", ("zmon_beat",), id="names of others are left out"),
        pytest.param("max(zmon:made:of) > 0", ("zmon_finding", "zmon_beat"), id="inputs of a record"),
        pytest.param("a / on (job_id) group_left (zmon_label) zmon_b", ("zmon_b",), id="label of a join is no series"),
    ],
)
def test_inputs_of_an_expression_are_its_scraped_series(query, expected):
    """A recorded series is replaced by its inputs, even if it is one of its own inputs."""
    recorded = {"zmon:made:of": "zmon_finding > 0 or zmon:made:of unless on () zmon:beat", "zmon:beat": "zmon_beat"}
    assert inputs(query, recorded) == expected
