"""Checks that each alert of zmon is loaded and healthy, and that the series in its query exist.

An alert on series that nothing exports stays silent forever and looks healthy. Common reasons are a rule file of
another version, an agent that is not a target, and relabelling that drops series.
"""

from __future__ import annotations

import importlib.resources
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import yaml

from zmon.doctor.check import Check
from zmon.doctor.prometheus_state import PrometheusState, Rule, recorded, recorded_rules
from zmon.format import listed
from zmon.schema.scraping import AGENT, HUB, LONGEST_SECONDS, made_for

# Parts of a PromQL expression.
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_UP = re.compile(r"\bup\s*(\{[^}]*\})")
_OPTIONAL_LABEL = re.compile(r',\s*\w+!=""')  # that targets have only in some clusters, such as the shard of Prometheus
_SERIES = re.compile(r"(?<![\w:])zmon[_:][\w:]+")
_LABEL_LIST = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)")
_LOAD = "Add dashboards/rules/ of this zmon to rule_files, then reload Prometheus."
_JOB_OF_ALERT = "$labels.job_id"  # in a text of an alert
_FINDING_RULE = "zmon:finding:alert"  # the recording rule whose series become alerts on findings
_FINDING_LABELS = re.compile(r"max by\s*\(([^)]*)\)\s*\(zmon_finding\b")  # the labels that this rule keeps
_OWN_LABELS = {"job_id", "detector", "severity"}  # those that it always keeps; the others are labels of jobs


@dataclass(frozen=True)
class Shipped:
    """The rules that this zmon ships."""

    alerts: dict[str, str]  # severity by name of the alert
    records: dict[str, tuple[str, ...]]  # names of recording rules by group
    of_jobs: frozenset[str]  # alerts whose texts name a job, so that they have a label job_id


@cache
def shipped() -> Shipped:
    """Read the rules of dashboards/rules/."""
    alerts: dict[str, str] = {}
    records: dict[str, tuple[str, ...]] = {}
    of_jobs: set[str] = set()
    directory = importlib.resources.files("dashboards") / "rules"
    for file in sorted(directory.iterdir(), key=lambda entry: entry.name):
        if not file.name.endswith(".yaml") or file.name.endswith("_test.yaml"):
            continue
        for group in yaml.safe_load(file.read_text())["groups"]:
            rules: list[dict[str, Any]] = group["rules"]
            alerts |= {rule["alert"]: rule["labels"]["severity"] for rule in rules if "alert" in rule}
            of_jobs |= {rule["alert"] for rule in rules if _JOB_OF_ALERT in str(rule.get("annotations"))}
            if names := tuple(rule["record"] for rule in rules if "record" in rule):
                records[group["name"]] = names
    return Shipped(alerts, records, frozenset(of_jobs))


def inputs(query: str, expressions: Mapping[str, str]) -> tuple[str, ...]:
    """Return the scraped series that an expression uses: those of zmon by name, and `up` with its labels.

    `expressions`: those of recording rules, by name. A recorded series is replaced by its own inputs.
    """
    series: dict[str, None] = {}
    visited = {query}
    pending = [query]
    while pending:
        expression = pending.pop()
        series |= dict.fromkeys(f"up{_OPTIONAL_LABEL.sub('', match[1])}" for match in _UP.finditer(expression))
        for name in _SERIES.findall(_LABEL_LIST.sub("", _STRING.sub('""', expression))):
            if name not in expressions:
                series[name] = None
            elif expressions[name] not in visited:
                visited.add(expressions[name])
                pending.append(expressions[name])
    return tuple(series)


def checks(rules: Shipped, state: PrometheusState) -> list[Check]:
    """Return one check per alert, and one per group of recording rules."""
    loaded = {rule.name: rule for group in state.groups for rule in group.rules}
    alerts = [_alert(name, loaded.get(name), state) for name in rules.alerts]
    return alerts + [_records(group, names, loaded) for group, names in rules.records.items()]


def _alert(name: str, rule: Rule | None, state: PrometheusState) -> Check:
    """Check that an alert is loaded and healthy, and that its series exist. `rule`: as loaded; None: it is not."""
    title = f"alert {name}"
    if rule is None:
        return Check(title, False, "is not loaded, so it cannot fire", _LOAD)
    if rule.health == "unknown":
        return Check(title, None, "has not been evaluated yet")
    if rule.health != "ok":
        return Check(title, False, f"cannot be evaluated: {rule.last_error}", "Run promtool check rules for details.")
    series = inputs(rule.query, recorded(state.groups))
    absent = [name for name in series if name not in state.present | state.declared]
    if absent and rule.state != "firing":  # a firing alert on absent series fires because they are absent
        result = f"is loaded, but uses {listed(absent)}, which no scraped page has, so it cannot fire"
        next_step = "Check that agents and hub of this version are among the targets of Prometheus."
        return Check(title, False, result, next_step)
    without_series = [name for name in series if name in state.declared]
    now = f"no series of {listed(without_series)} now" if without_series else "quiet"
    return Check(title, True, f"loaded and evaluated, {'fires now' if rule.state == 'firing' else now}")


def _records(group: str, names: tuple[str, ...], loaded: dict[str, Rule]) -> Check:
    """Check that the recording rules of a group are loaded and healthy. `loaded`: all rules by name."""
    title = f"rules {group}"
    if missing := [name for name in names if name not in loaded]:
        return Check(title, False, f"{len(missing)} of {len(names)} are not loaded: {listed(missing)}", _LOAD)
    if failing := [name for name in names if loaded[name].health == "err"]:
        result = f"cannot be evaluated: {listed([f'{name} ({loaded[name].last_error})' for name in failing])}"
        next_step = "Dashboards lack these series. Check that no two exporters report the same device."
        return Check(title, False, result, next_step)
    return Check(title, True, f"{len(names)} loaded and evaluated")


def alert_labels(declared: Sequence[str] | None, state: PrometheusState) -> list[Check]:
    """Check that the rules name the labels of jobs on alerts that the hub declares: only such labels reach the routes.

    A label that the rules or the hub lack is on no alert, so routes that read it never match. There is no check if
    neither names a label, or if the hub is of an older version.
    """
    queries = [rule.query for group in state.groups for rule in group.rules if rule.name == _FINDING_RULE]
    label_lists = [match[1].split(",") for query in queries if (match := _FINDING_LABELS.search(query))]
    if declared is None or not label_lists:
        return []
    in_rules = {name.strip() for names in label_lists for name in names} - _OWN_LABELS
    results = []
    if dropped := sorted({*declared} - in_rules):
        intervals = made_for(recorded_rules(state.groups))
        agents, hub = (f"{intervals.get(daemon, LONGEST_SECONDS)}s" for daemon in (AGENT, HUB))
        names = ",".join(declared)
        command = f"python -m dashboards.rules --agents {agents} --hub {hub} --alert-labels {names} --out DIR"
        result = f"the hub declares {listed(dropped)}, but the loaded rules drop it, so no route of alerts can match it"
        results.append(Check("alert labels", False, result, f"Load the rules that `{command}` makes."))
    if absent := sorted(in_rules - {*declared}):
        result = f"the loaded rules name {listed(absent)}, but the hub does not declare it, so no alert has it"
        results.append(Check("alert labels", False, result, "Add it with its values to --alert-labels of the hub."))
    if in_rules and not results:
        results.append(Check("alert labels", True, f"the hub and the loaded rules name {listed(sorted(in_rules))}"))
    return results
