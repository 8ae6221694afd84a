"""A healthy cluster with the objects of the Helm chart and a Prometheus of the operator, which tests change."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import yaml

from tests.places import REPOSITORY
from tests.web.kubernetes.fake_api import pod
from zmon.doctor.kubernetes.objects import (
    ClusterObjects,
    DaemonSet,
    Monitor,
    Namespace,
    PrometheusObject,
    PrometheusRule,
)
from zmon.web.kubernetes.agent_pods import Pod, pod_selection

CHART = [
    thing for thing in yaml.safe_load_all((REPOSITORY / "tests/golden/helm/default.yaml").read_text()) if thing
]  # as Helm installs it with monitoring.labels {release: kube-prometheus-stack}
AGENTS = pod_selection("zmon-agents/app.kubernetes.io/instance=zmon,app.kubernetes.io/component=agent")
SELECTOR = {"matchLabels": {"release": "kube-prometheus-stack"}}


def of_chart(kind, namespace="zmon"):
    """Return the one object of a kind that the chart makes. The namespace is that of the release if it names none."""
    (thing,) = [thing for thing in CHART if thing["kind"] == kind]
    return thing | {"metadata": {"namespace": namespace} | thing["metadata"]}


def prometheus(**spec):
    """Return the Prometheus of kube-prometheus-stack, with these changes of its selectors."""
    selectors = {"podMonitorSelector": SELECTOR, "serviceMonitorSelector": SELECTOR, "ruleSelector": SELECTOR}
    everywhere = {"podMonitorNamespaceSelector": {}, "serviceMonitorNamespaceSelector": {}, "ruleNamespaceSelector": {}}
    return {
        "metadata": {"name": "kube-prometheus-stack", "namespace": "monitoring"},
        "spec": selectors | everywhere | {"scrapeInterval": "30s", "replicas": 1} | spec,
    }


def namespace(name, **labels):
    """Return a namespace with these labels, whose underscores stand for hyphens."""
    extra_labels = {key.replace("_", "-"): value for key, value in labels.items()}
    return {"metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name} | extra_labels}}


def rule(labels=None, agents=15, hub=2):
    """Return the rules of the chart, made for these intervals."""
    made_for = [
        {"record": "zmon:rules_scrape_interval:seconds", "expr": f"vector({seconds})", "labels": {"daemon": daemon}}
        for daemon, seconds in (("agent", agents), ("hub", hub))
    ]
    metadata = {"name": "zmon-zmon", "namespace": "zmon", "labels": labels or SELECTOR["matchLabels"]}
    groups = [{"name": "zmon-scrapes", "interval": "2s", "rules": [*made_for, {"alert": "ZmonStall", "expr": "1"}]}]
    return {"metadata": metadata, "spec": {"groups": groups}}


def daemon_set(desired=3, current=3, ready=3, generation=1, observed=1):
    """Return the DaemonSet of the chart, with these numbers of nodes."""
    thing = of_chart("DaemonSet")
    numbers = {
        "desiredNumberScheduled": desired,
        "currentNumberScheduled": current,
        "numberReady": ready,
        "numberMisscheduled": 0,
        "observedGeneration": observed,
    }
    return thing | {"metadata": thing["metadata"] | {"generation": generation}, "status": numbers}


def monitor(kind="PodMonitor", labels=None, interval=None, name=None):
    """Return the monitor of the chart, with these changes."""
    thing = of_chart(kind)
    key = "podMetricsEndpoints" if kind == "PodMonitor" else "endpoints"
    (scrape,) = thing["spec"][key]
    spec = thing["spec"] | {key: [scrape | ({} if interval is None else {"interval": interval})]}
    metadata = thing["metadata"] | ({} if labels is None else {"labels": labels}) | ({"name": name} if name else {})
    return thing | {"metadata": metadata, "spec": spec}


def typed(kind, *things):
    """Return decoded objects."""
    return tuple(msgspec.convert(thing, kind) for thing in things)


HEALTHY = ClusterObjects(
    agents=AGENTS,
    pods=typed(Pod, *(pod(f"zmon-agent-{number}", f"10.0.0.{number}") for number in range(3))),
    daemon_sets=typed(DaemonSet, daemon_set()),
    namespaces=typed(Namespace, namespace("zmon"), namespace("monitoring"), of_chart("Namespace")),
    prometheuses=typed(PrometheusObject, prometheus()),
    pod_monitors=typed(Monitor, monitor("PodMonitor")),
    service_monitors=typed(Monitor, monitor("ServiceMonitor")),
    rules=typed(PrometheusRule, rule()),
)


def cluster(**changes):
    """Return a healthy cluster, with these changes."""
    return replace(HEALTHY, **changes)


def states(checks):
    """Return whether each check is armed, by its name."""
    return {check.name: check.armed for check in checks}


def by_name(checks, name):
    """Return the check of this name."""
    return next(check for check in checks if check.name == name)
