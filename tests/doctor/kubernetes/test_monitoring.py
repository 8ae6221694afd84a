"""Tests of the checks of monitors, rules and scrape intervals."""

import pytest

from tests.doctor.kubernetes.scene import by_name, cluster, monitor, prometheus, rule, states, typed
from zmon.doctor.kubernetes.monitoring import checks, recorded_rules
from zmon.doctor.kubernetes.objects import Monitor, PrometheusObject, PrometheusRule
from zmon.errors import Forbidden, NotServed, Unreachable
from zmon.schema.scraping import made_for

OTHER = {"app.kubernetes.io/name": "zmon", "app.kubernetes.io/component": "agent", "release": "other"}
REFUSED = Forbidden("cannot list x of the cluster", "x is forbidden (403)", "Give the service account a ClusterRole")


def test_object_that_no_prometheus_selects_is_inert_with_the_label_that_it_lacks():
    changed = cluster(pod_monitors=typed(Monitor, monitor(labels=OTHER)))
    check = by_name(checks(changed), "PodMonitor zmon-agents/zmon-agent")
    assert check.armed is False
    assert "no Prometheus selects it, so it has no effect" in check.result
    assert "monitoring/kube-prometheus-stack selects release=kube-prometheus-stack" in check.result
    assert check.next_step == "Add the label release=kube-prometheus-stack to it (Helm: monitoring.labels)."
    assert "interval of zmon-agent" not in states(checks(changed))


def test_one_of_several_prometheuses_is_enough():
    second = prometheus(podMonitorSelector=None, ruleSelector={"matchLabels": {"a": "b"}})
    second["metadata"] = {"name": "own", "namespace": "zmon"}
    both = typed(PrometheusObject, second, prometheus())
    assert all(states(checks(cluster(prometheuses=both))).values())
    alone = by_name(checks(cluster(prometheuses=both[:1])), "PodMonitor zmon-agents/zmon-agent")
    assert alone.armed is False
    assert "zmon/own selects no PodMonitor" in alone.result
    assert "podMonitorSelector of the Prometheus" in alone.next_step


def test_objects_of_other_programs_are_quiet():
    others = (*cluster().pod_monitors, *typed(Monitor, monitor(labels={"release": "other"}, name="dcgm-exporter")))
    assert len(checks(cluster(pod_monitors=others))) == len(checks(cluster()))


def without_interval():
    """Return the PodMonitor of the chart, which leaves its interval to the Prometheus: 30s."""
    thing = monitor()
    for scrape in thing["spec"]["podMetricsEndpoints"]:
        del scrape["interval"]
    return typed(Monitor, thing)


QUICK = typed(PrometheusObject, prometheus(scrapeInterval="5s"))
CHANGES = {  # changes of a healthy cluster, a check, whether it is armed, and a part of its result and next step
    "rules that no Prometheus selects": (
        {"rules": typed(PrometheusRule, rule(labels={"release": "other"}))},
        "PrometheusRule zmon/zmon-zmon", False, "no Prometheus selects it",
    ),
    "no PodMonitor": ({"pod_monitors": ()}, "PodMonitor objects", None, "there is none"),
    "longer interval than the rules allow": (
        {"service_monitors": typed(Monitor, monitor("ServiceMonitor", interval="1m30s"))},
        "interval of zmon-hub", False,
        "every 1m30s, but the rules are made for 2 s Set the interval of zmon/zmon-hub to 2s or less.",
    ),
    "long interval of the Prometheus": (
        {"pod_monitors": without_interval()}, "interval of zmon-agent", False, "every 30s"
    ),
    "short interval of the Prometheus": (
        {"pod_monitors": without_interval(), "prometheuses": QUICK}, "interval of zmon-agent", True, "every 5s"
    ),
    "interval that is no duration": (
        {"pod_monitors": typed(Monitor, monitor(interval="often"))}, "interval of zmon-agent", False, "every often"
    ),
    "no rules that tell their interval": (
        {"rules": ()}, "interval of zmon-agent", None, "it is unknown for which interval the rules are made"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "name", "armed", "part"), CHANGES.values(), ids=CHANGES)
def test_change_of_an_object_is_seen_by_its_check(changes, name, armed, part):
    check = by_name(checks(cluster(**changes)), name)
    assert check.armed is armed
    assert part in f"{check.result} {check.next_step}"


def test_shortest_interval_of_several_rules_counts():
    rules = typed(PrometheusRule, rule(agents=15, hub=5), rule(agents=30, hub=2))
    assert made_for(recorded_rules(rules)) == {"agent": 15, "hub": 2}


def test_objects_that_may_not_be_read_are_unknown_with_the_missing_right():
    changed = checks(cluster(pod_monitors=REFUSED))
    check = by_name(changed, "PodMonitor objects")
    assert check.armed is None
    assert check.result.startswith("unknown: cannot list x of the cluster: x is forbidden (403). Give the service")
    assert by_name(changed, "ServiceMonitor zmon/zmon-hub").armed


def test_prometheuses_that_may_not_be_read_make_everything_unknown():
    assert states(checks(cluster(prometheuses=REFUSED))) == {"Prometheus operator": None}
    assert states(checks(cluster(prometheuses=Unreachable("no answer")))) == {"Prometheus operator": False}


def test_cluster_without_the_operator_or_without_prometheus_is_quiet():
    (check,) = checks(cluster(prometheuses=NotServed("cannot list prometheuses")))
    assert check.armed is None
    assert "is not installed" in check.result
    (check,) = checks(cluster(prometheuses=()))
    assert check.armed is None
    assert "PrometheusAgent" in check.result
