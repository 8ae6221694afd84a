"""Tests of the checks of monitors, rules and scrape intervals."""

from tests.doctor.kubernetes.scene import by_name, cluster, monitor, prometheus, rule, states, typed
from zmon.doctor.kubernetes.monitoring import checks, recorded_rules
from zmon.doctor.kubernetes.objects import Monitor, PrometheusObject, PrometheusRule
from zmon.errors import Forbidden, NotServed, Unreachable
from zmon.schema.scraping import made_for

OTHER = {"app.kubernetes.io/name": "zmon", "app.kubernetes.io/component": "agent", "release": "other"}
REFUSED = Forbidden("cannot list x of the cluster", "x is forbidden (403)", "Give the service account a ClusterRole")


def test_objects_of_the_chart_are_armed_in_a_healthy_cluster():
    assert states(checks(cluster())) == {
        "PodMonitor zmon-agents/zmon-agent": True,
        "ServiceMonitor zmon/zmon-hub": True,
        "PrometheusRule zmon/zmon-zmon": True,
        "interval of zmon-agent": True,
        "interval of zmon-hub": True,
    }


def test_object_that_no_prometheus_selects_is_inert_with_the_label_that_it_lacks():
    changed = cluster(pod_monitors=typed(Monitor, monitor(labels=OTHER)))
    check = by_name(checks(changed), "PodMonitor zmon-agents/zmon-agent")
    assert check.armed is False
    assert "no Prometheus selects it, so it has no effect" in check.result
    assert "monitoring/kube-prometheus-stack selects release=kube-prometheus-stack" in check.result
    assert check.next_step == "Add the label release=kube-prometheus-stack to it (Helm: monitoring.labels)."
    assert "interval of zmon-agent" not in states(checks(changed))


def test_rules_that_no_prometheus_selects_are_inert():
    changed = cluster(rules=typed(PrometheusRule, rule(labels={"release": "other"})))
    assert by_name(checks(changed), "PrometheusRule zmon/zmon-zmon").armed is False


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


def test_missing_objects_are_unknown():
    changed = checks(cluster(pod_monitors=()))
    assert by_name(changed, "PodMonitor objects").armed is None
    assert "there is none" in by_name(changed, "PodMonitor objects").result


def test_interval_that_is_longer_than_the_rules_allow_is_inert():
    changed = cluster(service_monitors=typed(Monitor, monitor("ServiceMonitor", interval="1m30s")))
    check = by_name(checks(changed), "interval of zmon-hub")
    assert check.armed is False
    assert check.result == "scrapes hubs every 1m30s, but the rules are made for 2 s"
    assert check.next_step == "Set the interval of zmon/zmon-hub to 2s or less."


def test_missing_interval_is_that_of_the_prometheus():
    thing = monitor()
    for scrape in thing["spec"]["podMetricsEndpoints"]:
        del scrape["interval"]
    check = by_name(checks(cluster(pod_monitors=typed(Monitor, thing))), "interval of zmon-agent")
    assert check.armed is False
    assert "every 30s" in check.result
    quick = typed(PrometheusObject, prometheus(scrapeInterval="5s"))
    assert by_name(
        checks(cluster(pod_monitors=typed(Monitor, thing), prometheuses=quick)), "interval of zmon-agent"
    ).armed


def test_interval_that_is_no_duration_is_inert():
    changed = cluster(pod_monitors=typed(Monitor, monitor(interval="often")))
    assert by_name(checks(changed), "interval of zmon-agent").armed is False


def test_interval_is_unknown_without_rules_that_tell_theirs():
    check = by_name(checks(cluster(rules=())), "interval of zmon-agent")
    assert check.armed is None
    assert "it is unknown for which interval" in check.result


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
