"""Tests of the paths of resources, and of the rights that they need."""

from zmon.web.kubernetes.requests import Resource

PODS = Resource("pods", verbs=("list", "watch"))
MONITORS = Resource("podmonitors", "monitoring.coreos.com")


def test_path_has_group_and_namespace():
    assert PODS.path == "/api/v1/pods"
    assert PODS.in_namespace("zmon").path == "/api/v1/namespaces/zmon/pods"
    assert MONITORS.in_namespace("zmon").path == "/apis/monitoring.coreos.com/v1/namespaces/zmon/podmonitors"


def test_namespace_cannot_lead_elsewhere():
    assert PODS.in_namespace("../nodes").path == "/api/v1/namespaces/..%2Fnodes/pods"


def test_missing_right_is_a_rule_of_a_role_or_of_a_cluster_role():
    assert PODS.in_namespace("zmon").next_step == (
        "Give the service account a Role in the namespace zmon with the rule "
        '{apiGroups: [""], resources: [pods], verbs: [list, watch]}'
    )
    assert "a ClusterRole with" in MONITORS.next_step
    assert '{apiGroups: ["monitoring.coreos.com"], resources: [podmonitors], verbs: [list]}' in MONITORS.next_step
