"""Decides which objects a Prometheus of the operator selects. Pure.

Source: https://prometheus-operator.dev/docs/api-reference/api/: a selector of objects that is missing selects none, an
empty one all. A selector of namespaces that is missing selects the namespace of the Prometheus, an empty one all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from zmon.doctor.kubernetes.objects import LabelSelector, Namespace, PrometheusObject, Requirement
from zmon.errors import Unreachable
from zmon.web.kubernetes.requests import ObjectMeta


@dataclass(frozen=True)
class Kind:
    """A kind of objects that a Prometheus selects."""

    name: str
    selector: str  # this and the next are fields of PrometheusSpec
    namespace_selector: str
    key: str  # the selector of objects as users write it


POD_MONITOR = Kind("PodMonitor", "pod_monitor_selector", "pod_monitor_namespace_selector", "podMonitorSelector")
SERVICE_MONITOR = Kind(
    "ServiceMonitor", "service_monitor_selector", "service_monitor_namespace_selector", "serviceMonitorSelector"
)
RULE = Kind("PrometheusRule", "rule_selector", "rule_namespace_selector", "ruleSelector")


@dataclass(frozen=True)
class Selection:
    """The answer whether a Prometheus selects an object, with the reason."""

    selects: bool | None  # None: unknown, because the labels of namespaces cannot be read
    reason: str = ""  # why it does not, or why that is unknown
    missing: Mapping[str, str] = field(default_factory=dict)  # labels with which it would select the object


def matches(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    """Return True if labels meet all conditions."""
    has_all = selector.match_labels.items() <= labels.items()
    return has_all and all(_meets(requirement, labels) for requirement in selector.match_expressions)


def _meets(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    exists = requirement.key in labels
    is_in = exists and labels[requirement.key] in requirement.values
    results = {"In": is_in, "NotIn": not is_in, "Exists": exists, "DoesNotExist": not exists}
    return results.get(requirement.operator, False)


def text(selector: LabelSelector) -> str:
    """Return a selector as kubectl writes it."""
    parts = [f"{key}={value}" for key, value in selector.match_labels.items()]
    for requirement in selector.match_expressions:
        key = requirement.key
        values = f"({','.join(requirement.values)})"
        forms = {"In": f"{key} in {values}", "NotIn": f"{key} notin {values}", "Exists": key, "DoesNotExist": f"!{key}"}
        parts.append(forms.get(requirement.operator, f"{key} {requirement.operator} {values}"))
    return ",".join(parts)


def selection(
    prometheus: PrometheusObject, kind: Kind, meta: ObjectMeta, namespaces: tuple[Namespace, ...] | Unreachable
) -> Selection:
    """Return whether a Prometheus selects an object of a kind."""
    name = f"{prometheus.metadata.namespace}/{prometheus.metadata.name}"
    selector: LabelSelector | None = getattr(prometheus.spec, kind.selector)
    if selector is None:
        return Selection(False, f"{name} selects no {kind.name} ({kind.key} is not set)")
    if not matches(selector, meta.labels):
        missing = {key: value for key, value in selector.match_labels.items() if meta.labels.get(key) != value}
        would_match = matches(selector, {**meta.labels, **missing})
        return Selection(False, f"{name} selects {text(selector)}", missing if would_match else {})
    return _of_namespace(prometheus, getattr(prometheus.spec, kind.namespace_selector), name, meta, namespaces)


def _of_namespace(
    prometheus: PrometheusObject,
    selector: LabelSelector | None,
    name: str,
    meta: ObjectMeta,
    namespaces: tuple[Namespace, ...] | Unreachable,
) -> Selection:
    """Return whether a Prometheus selects objects in the namespace of an object. `name`: of the Prometheus."""
    if selector is None:
        is_own = meta.namespace == prometheus.metadata.namespace
        return Selection(is_own, "" if is_own else f"{name} selects in its own namespace only")
    if not selector.match_labels and not selector.match_expressions:
        return Selection(True)
    if isinstance(namespaces, Unreachable):
        return Selection(None, f"the labels of the namespace {meta.namespace} are unknown: {namespaces}")
    labels = next((space.metadata.labels for space in namespaces if space.metadata.name == meta.namespace), {})
    if matches(selector, labels):
        return Selection(True)
    return Selection(False, f"{name} selects in namespaces with {text(selector)}")
