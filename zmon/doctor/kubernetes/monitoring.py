"""Checks the objects of the Prometheus operator: whether a Prometheus selects them, and how often it scrapes. Pure.

Kubernetes accepts an object that no Prometheus selects, and nothing says that it has no effect.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from zmon.doctor.check import Check, unreadable
from zmon.doctor.kubernetes.objects import (
    ClusterObjects,
    LabelSelector,
    PrometheusObject,
    PrometheusRule,
    known,
)
from zmon.doctor.kubernetes.selection import POD_MONITOR, RULE, SERVICE_MONITOR, Kind, selection, text
from zmon.errors import NotServed, Unreachable
from zmon.format import listed
from zmon.schema.scraping import AGENT, HUB, RecordedRule, duration_seconds, made_for
from zmon.web.kubernetes.requests import ObjectMeta

_MAX_LISTED = 3  # Prometheus objects that a check names
_NOT_READ = "PrometheusAgent and ThanosRuler objects are not read"


def checks(objects: ClusterObjects) -> list[Check]:
    """Return one check for each PodMonitor, ServiceMonitor and PrometheusRule of zmon, and one for each interval."""
    if isinstance(objects.prometheuses, NotServed):
        result = "is not installed, so PodMonitors, ServiceMonitors and PrometheusRules do not exist"
        return [Check("Prometheus operator", None, result)]
    if isinstance(objects.prometheuses, Unreachable):
        return [unreadable("Prometheus operator", objects.prometheuses)]
    if not objects.prometheuses:
        result = f"there is no Prometheus object that could select those of zmon; {_NOT_READ}"
        return [Check("Prometheus operator", None, result)]
    results: list[Check] = []
    for kind, kind_objects in (
        (POD_MONITOR, objects.pod_monitors),
        (SERVICE_MONITOR, objects.service_monitors),
        (RULE, objects.rules),
    ):
        if isinstance(kind_objects, Unreachable):
            results.append(unreadable(f"{kind.name} objects", kind_objects))
            continue
        metas = [item.metadata for item in kind_objects if _is_of_zmon(item.metadata)]
        if not metas:
            results.append(Check(f"{kind.name} objects", None, "there is none with zmon in its name or labels"))
        results += [_selected(objects, objects.prometheuses, kind, meta) for meta in metas]
    return results + _intervals(objects, objects.prometheuses)


def _is_of_zmon(meta: ObjectMeta) -> bool:
    return "zmon" in meta.name or meta.labels.get("app.kubernetes.io/name") == "zmon"


def _selected(objects: ClusterObjects, prometheuses: Sequence[PrometheusObject], kind: Kind, meta: ObjectMeta) -> Check:
    """Check that a Prometheus selects an object."""
    name = f"{kind.name} {meta.namespace}/{meta.name}"
    answers = [selection(prometheus, kind, meta, objects.namespaces) for prometheus in prometheuses]
    selecting = [p.metadata for p, answer in zip(prometheuses, answers, strict=True) if answer.selects]
    if selecting:
        names = listed([f"{meta.namespace}/{meta.name}" for meta in selecting], _MAX_LISTED)
        return Check(name, True, f"is selected by Prometheus {names}")
    unknown = listed([answer.reason for answer in answers if answer.selects is None], _MAX_LISTED)
    if unknown:
        return Check(name, None, f"it is unknown whether a Prometheus selects it: {unknown}")
    reasons = listed([answer.reason for answer in answers], _MAX_LISTED)
    result = f"no Prometheus selects it, so it has no effect: {reasons}"
    labels = next((text(LabelSelector(dict(answer.missing))) for answer in answers if answer.missing), "")
    own_step = f"Add the label {labels} to it (Helm: monitoring.labels)." if labels else ""
    return Check(name, False, result, own_step or f"Change its labels or namespace, or {kind.key} of the Prometheus.")


def recorded_rules(rules: Iterable[PrometheusRule]) -> Iterator[RecordedRule]:
    lines = (line for rule in rules for group in rule.spec.groups for line in group.rules)
    return (RecordedRule(line.record, line.labels, str(line.expr)) for line in lines)


def _intervals(objects: ClusterObjects, prometheuses: Sequence[PrometheusObject]) -> list[Check]:
    """Return one check for each monitor of agents or hubs that a Prometheus selects."""
    rules = made_for(recorded_rules(known(objects.rules)))
    monitors = [(POD_MONITOR, monitor) for monitor in known(objects.pod_monitors)]
    monitors += [(SERVICE_MONITOR, monitor) for monitor in known(objects.service_monitors)]
    results: list[Check] = []
    for kind, monitor in monitors:
        daemon = _daemon(monitor.metadata) if _is_of_zmon(monitor.metadata) else None
        selecting = [p for p in prometheuses if selection(p, kind, monitor.metadata, objects.namespaces).selects]
        scrapes = (*monitor.spec.pod_metrics_endpoints, *monitor.spec.endpoints)
        if daemon is not None and selecting and scrapes:
            intervals = {
                scrape.interval or prometheus.spec.scrape_interval for scrape in scrapes for prometheus in selecting
            }
            results.append(_interval(monitor.metadata, daemon, sorted(intervals), rules.get(daemon)))
    return results


def _interval(meta: ObjectMeta, daemon: str, intervals: Sequence[str], longest: int | None) -> Check:
    """Check that a monitor scrapes often enough. `longest`: seconds for which the rules are made; None: unknown."""
    name = f"interval of {meta.name}"
    every = listed(intervals)
    if longest is None:
        return Check(name, None, f"scrapes every {every}; it is unknown for which interval the rules are made")
    try:
        is_short = max(map(duration_seconds, intervals)) <= longest
    except ValueError as error:
        return Check(name, False, f"scrapes every {every}: {error}", f"Set its interval to {longest}s.")
    if is_short:
        return Check(name, True, f"scrapes {daemon}s every {every}; the rules are made for {longest} s")
    result = f"scrapes {daemon}s every {every}, but the rules are made for {longest} s"
    return Check(name, False, result, f"Set the interval of {meta.namespace}/{meta.name} to {longest}s or less.")


def _daemon(meta: ObjectMeta) -> str | None:
    """Return which daemons a monitor scrapes, agents or hubs; None if neither its labels nor its name tell."""
    component = meta.labels.get("app.kubernetes.io/component", "")
    return next((word for word in (AGENT, HUB) if word == component or meta.name.endswith(f"-{word}")), None)
