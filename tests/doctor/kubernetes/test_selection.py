"""Tests of what a Prometheus of the operator selects, and what it does not."""

import pytest

from tests.doctor.kubernetes.scene import namespace, prometheus, typed
from zmon.doctor.kubernetes.objects import LabelSelector, Namespace, PrometheusObject, Requirement
from zmon.doctor.kubernetes.selection import POD_MONITOR, RULE, SERVICE_MONITOR, matches, selection, text
from zmon.errors import Forbidden
from zmon.web.kubernetes.requests import ObjectMeta

OURS = ObjectMeta("zmon-agent", "zmon-agents", labels={"release": "kube-prometheus-stack"})
NAMESPACES = typed(Namespace, namespace("zmon-agents", team="ml"), namespace("monitoring"))


def judged(thing=OURS, kind=POD_MONITOR, namespaces=NAMESPACES, **spec):
    """Return whether the Prometheus with these changes of its selectors selects an object, and why not."""
    (server,) = typed(PrometheusObject, prometheus(**spec))
    return selection(server, kind, thing, namespaces)


@pytest.mark.parametrize(
    ("requirement", "labels", "meets"),
    [
        (("tier", "In", ("a", "b")), {"tier": "a"}, True),
        (("tier", "In", ("a", "b")), {"tier": "c"}, False),
        (("tier", "In", ("a", "b")), {}, False),
        (("tier", "NotIn", ("a", "b")), {"tier": "c"}, True),
        (("tier", "NotIn", ("a", "b")), {"tier": "a"}, False),
        (("tier", "NotIn", ("a", "b")), {}, True),
        (("tier", "Exists", ()), {"tier": ""}, True),
        (("tier", "Exists", ()), {}, False),
        (("tier", "DoesNotExist", ()), {}, True),
        (("tier", "DoesNotExist", ()), {"tier": "a"}, False),
        (("tier", "Newer", ()), {"tier": "a"}, False),
    ],
)
def test_requirements_are_those_of_kubernetes(requirement, labels, meets):
    assert matches(LabelSelector(match_expressions=(Requirement(*requirement),)), labels) is meets


def test_all_conditions_must_hold_and_none_selects_everything():
    both = LabelSelector({"release": "a"}, (Requirement("tier", "Exists"),))
    assert matches(both, {"release": "a", "tier": "x"})
    assert not matches(both, {"release": "a"})
    assert not matches(both, {"tier": "x"})
    assert matches(LabelSelector(), {})


def test_selector_is_written_as_kubectl_writes_it():
    conditions = (
        Requirement("tier", "In", ("a", "b")),
        Requirement("zone", "NotIn", ("c",)),
        Requirement("x", "Exists"),
        Requirement("y", "DoesNotExist"),
    )
    assert text(LabelSelector({"release": "kps"}, conditions)) == "release=kps,tier in (a,b),zone notin (c),x,!y"


@pytest.mark.parametrize("kind", [POD_MONITOR, SERVICE_MONITOR, RULE])
def test_object_without_the_label_is_not_selected(kind):
    result = judged(ObjectMeta("zmon-agent", "zmon-agents", labels={"release": "other"}), kind)
    assert result.selects is False
    assert result.reason == "monitoring/kube-prometheus-stack selects release=kube-prometheus-stack"
    assert result.missing == {"release": "kube-prometheus-stack"}


def test_missing_label_is_left_out_if_it_would_not_be_enough():
    selector = {"matchLabels": {"release": "a"}, "matchExpressions": [{"key": "tier", "operator": "Exists"}]}
    assert judged(podMonitorSelector=selector).missing == {}


def test_only_an_empty_selector_selects_every_object():
    nameless = ObjectMeta("zmon-agent", "zmon-agents")
    assert judged(nameless, podMonitorSelector={}).selects
    result = judged(podMonitorSelector=None)
    assert (result.selects, result.missing) == (False, {})
    assert "selects no PodMonitor (podMonitorSelector is not set)" in result.reason


def test_missing_selector_of_namespaces_selects_that_of_the_prometheus():
    result = judged(podMonitorNamespaceSelector=None)
    assert (result.selects, result.reason) == (
        False, "monitoring/kube-prometheus-stack selects in its own namespace only",
    )  # fmt: skip
    inside = ObjectMeta("zmon-agent", "monitoring", labels=OURS.labels)
    assert judged(inside, podMonitorNamespaceSelector=None).selects


def test_namespaces_are_selected_by_their_labels():
    assert judged(podMonitorNamespaceSelector={"matchLabels": {"team": "ml"}}).selects
    result = judged(podMonitorNamespaceSelector={"matchLabels": {"team": "web"}})
    assert result.selects is False
    assert "selects in namespaces with team=web" in result.reason


def test_labels_of_namespaces_that_may_not_be_read_make_it_unknown():
    unknown = Forbidden("cannot list namespaces of the cluster")
    assert judged(namespaces=unknown).selects  # the selector is empty: labels do not matter
    result = judged(namespaces=unknown, podMonitorNamespaceSelector={"matchLabels": {"team": "ml"}})
    assert result.selects is None
    assert "cannot list namespaces" in result.reason
