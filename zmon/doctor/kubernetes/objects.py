"""The objects of Kubernetes and of the Prometheus operator, as far as doctor reads them.

Sources: https://kubernetes.io/docs/reference/kubernetes-api/ and
https://prometheus-operator.dev/docs/api-reference/api/ (monitoring.coreos.com/v1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import msgspec

from zmon.errors import Unreachable
from zmon.web.kubernetes.agent_pods import Pod, PodSelection
from zmon.web.kubernetes.requests import ObjectMeta, Resource

T = TypeVar("T")
_OPERATOR = "monitoring.coreos.com"
NAMESPACES = Resource("namespaces")
DAEMON_SETS = Resource("daemonsets", "apps")
PODS = Resource("pods")
PROMETHEUSES = Resource("prometheuses", _OPERATOR)
POD_MONITORS = Resource("podmonitors", _OPERATOR)
SERVICE_MONITORS = Resource("servicemonitors", _OPERATOR)
RULES = Resource("prometheusrules", _OPERATOR)


class Requirement(msgspec.Struct, frozen=True):
    """One condition on a label: In, NotIn, Exists or DoesNotExist."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class LabelSelector(msgspec.Struct, frozen=True, rename="camel"):
    """Conditions on labels, of which all must hold. Without a condition it selects everything."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[Requirement, ...] = ()


class PrometheusSpec(msgspec.Struct, frozen=True, rename="camel"):
    """Selectors of objects and of their namespaces.

    A selector of objects that is None selects nothing; one of namespaces selects the namespace of the Prometheus.
    """

    pod_monitor_selector: LabelSelector | None = None
    pod_monitor_namespace_selector: LabelSelector | None = None
    service_monitor_selector: LabelSelector | None = None
    service_monitor_namespace_selector: LabelSelector | None = None
    rule_selector: LabelSelector | None = None
    rule_namespace_selector: LabelSelector | None = None
    scrape_interval: str = "30s"


class PrometheusObject(msgspec.Struct, frozen=True):
    """A Prometheus that the operator runs."""

    metadata: ObjectMeta
    spec: PrometheusSpec = PrometheusSpec()


class Scrape(msgspec.Struct, frozen=True):
    """A page that a monitor has Prometheus scrape. Without an interval, that of the Prometheus counts."""

    interval: str = ""


class MonitorSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The pages of a PodMonitor, or those of a ServiceMonitor."""

    pod_metrics_endpoints: tuple[Scrape, ...] = ()
    endpoints: tuple[Scrape, ...] = ()


class Monitor(msgspec.Struct, frozen=True):
    metadata: ObjectMeta
    spec: MonitorSpec = MonitorSpec()


class RuleLine(msgspec.Struct, frozen=True):
    """An alert, or a recording rule."""

    alert: str = ""
    record: str = ""
    expr: str | int = ""
    labels: dict[str, str] = {}


class RuleLines(msgspec.Struct, frozen=True):
    rules: tuple[RuleLine, ...] = ()


class RuleSpec(msgspec.Struct, frozen=True):
    groups: tuple[RuleLines, ...] = ()


class PrometheusRule(msgspec.Struct, frozen=True):
    """Rules that the operator loads into each Prometheus that selects them."""

    metadata: ObjectMeta
    spec: RuleSpec = RuleSpec()


class Namespace(msgspec.Struct, frozen=True):
    metadata: ObjectMeta


class Capabilities(msgspec.Struct, frozen=True):
    """Capabilities that a container has beyond those of its runtime."""

    add: tuple[str, ...] = ()


class SecurityContext(msgspec.Struct, frozen=True):
    privileged: bool = False
    capabilities: Capabilities = Capabilities()


class HostPort(msgspec.Struct, frozen=True, rename="camel"):
    """A port of a container; 0 if it is not one of the host."""

    host_port: int = 0


class TemplateContainer(msgspec.Struct, frozen=True, rename="camel"):
    security_context: SecurityContext = SecurityContext()
    ports: tuple[HostPort, ...] = ()


class Volume(msgspec.Struct, frozen=True, rename="camel"):
    """A volume; `host_path` is None if it is not a directory of the host."""

    host_path: dict[str, str] | None = None


class TemplateSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The part of a pod that Pod Security judges."""

    host_network: bool = False
    host_pid: bool = msgspec.field(name="hostPID", default=False)
    host_ipc: bool = msgspec.field(name="hostIPC", default=False)
    containers: tuple[TemplateContainer, ...] = ()
    init_containers: tuple[TemplateContainer, ...] = ()
    volumes: tuple[Volume, ...] = ()


class Template(msgspec.Struct, frozen=True):
    spec: TemplateSpec = TemplateSpec()


class DaemonSetSpec(msgspec.Struct, frozen=True):
    template: Template = Template()


class DaemonSetStatus(msgspec.Struct, frozen=True, rename="camel"):
    """Numbers of nodes: those that should run a pod, those that do, and those whose pod is ready."""

    desired_number_scheduled: int = 0
    current_number_scheduled: int = 0
    number_ready: int = 0
    observed_generation: int = 0


class DaemonSet(msgspec.Struct, frozen=True):
    metadata: ObjectMeta
    spec: DaemonSetSpec = DaemonSetSpec()
    status: DaemonSetStatus = DaemonSetStatus()


@dataclass(frozen=True)
class ClusterObjects:
    """The answers of the API server. If it refuses a list, the error is in place of the objects."""

    agents: PodSelection | None  # None: nobody has said where they are
    pods: tuple[Pod, ...] | Unreachable
    daemon_sets: tuple[DaemonSet, ...] | Unreachable
    namespaces: tuple[Namespace, ...] | Unreachable
    prometheuses: tuple[PrometheusObject, ...] | Unreachable
    pod_monitors: tuple[Monitor, ...] | Unreachable
    service_monitors: tuple[Monitor, ...] | Unreachable
    rules: tuple[PrometheusRule, ...] | Unreachable


def known(objects: tuple[T, ...] | Unreachable) -> tuple[T, ...]:
    """Return the objects; none if the API server refuses the list."""
    return () if isinstance(objects, Unreachable) else objects
