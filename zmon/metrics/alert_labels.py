"""The names that a site may give to labels of jobs on alerts.

A name with a meaning of its own is refused: two hubs would then send two alerts, or Prometheus would rename the label.
"""

from __future__ import annotations

from zmon.metrics.names import LABEL_NAME, SPECS

MAX_ALERT_LABELS = 4  # each combination of their values is a series, and Alertmanager may make a group of it
# Prometheus and Alertmanager set the labels of the first line. Operators and replicas of Prometheus set the others.
_OF_PROMETHEUS = (
    "alertname", "alertstate", "job", "instance",
    "cluster", "container", "endpoint", "monitor", "namespace", "node", "pod", "prometheus", "prometheus_replica",
    "replica", "service",
)  # fmt: skip
RESERVED = frozenset((*_OF_PROMETHEUS, *(label for spec in SPECS.values() for label in spec.labels)))


def name_problem(name: object) -> str:
    """Return the reason why a site may not declare a label of this name; empty if it may."""
    if not isinstance(name, str) or not LABEL_NAME.fullmatch(name):
        return f"{name!r} is no name of a label: use letters, digits and _, and a letter first"
    if name in RESERVED:
        return f"{name} is a label of zmon or of Prometheus"
    if name.startswith("zmon_"):
        return "labels of zmon's own links begin with zmon_, and are dropped from alerts"
    return ""
