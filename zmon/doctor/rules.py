"""Is each alert that zmon ships loaded, healthy, and does what it looks at exist?

An alert over series that nobody exports stays silent for ever and looks well. A rule file of another version, an agent
that is no target, a relabelling that drops: all end there.
"""

from __future__ import annotations

import importlib.resources
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import yaml

from zmon.doctor.check import Check
from zmon.doctor.told import PrometheusState, Rule
from zmon.format import listed

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_UP = re.compile(r"\bup\s*(\{[^}]*\})")
_SERIES = re.compile(r"(?<![\w:])zmon[_:][\w:]+")
_LABELS = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)")
_LOAD = "Add dashboards/rules/ of this zmon to rule_files, then reload Prometheus."


@dataclass(frozen=True)
class Shipped:
    """What a rule file of this zmon holds."""

    alerts: dict[str, str]  # severity by name
    records: dict[str, tuple[str, ...]]  # names by group


@cache
def shipped() -> Shipped:
    """The rules that came with this zmon."""
    alerts: dict[str, str] = {}
    records: dict[str, tuple[str, ...]] = {}
    folder = importlib.resources.files("dashboards") / "rules"
    for file in sorted(folder.iterdir(), key=lambda one: one.name):
        if not file.name.endswith(".yaml") or file.name.endswith("_test.yaml"):
            continue
        for group in yaml.safe_load(file.read_text())["groups"]:
            rules: list[dict[str, Any]] = group["rules"]
            alerts |= {rule["alert"]: rule["labels"]["severity"] for rule in rules if "alert" in rule}
            if names := tuple(rule["record"] for rule in rules if "record" in rule):
                records[group["name"]] = names
    return Shipped(alerts, records)


def inputs(query: str, recorded: Mapping[str, str]) -> tuple[str, ...]:
    """The scraped series that an expression looks at: zmon's by name, and `up` with its labels.

    `recorded`: expressions by name of what is itself made by a rule; it stands for what it is made of.
    """
    found: dict[str, None] = {}
    known = {query}
    waiting = [query]
    while waiting:
        expression = waiting.pop()
        found |= dict.fromkeys(f"up{match[1]}" for match in _UP.finditer(expression))
        for name in _SERIES.findall(_LABELS.sub("", _STRING.sub('""', expression))):
            if name not in recorded:
                found[name] = None
            elif recorded[name] not in known:
                known.add(recorded[name])
                waiting.append(recorded[name])
    return tuple(found)


def checks(shipped: Shipped, told: PrometheusState) -> list[Check]:
    """One line an alert, one a group of recording rules."""
    loaded = {rule.name: rule for group in told.groups for rule in group.rules}
    found = [_alert(name, loaded.get(name), told) for name in shipped.alerts]
    return found + [_records(group, names, loaded) for group, names in shipped.records.items()]


def _alert(name: str, rule: Rule | None, told: PrometheusState) -> Check:
    title = f"alert {name}"
    if rule is None:
        return Check(title, False, "is not loaded: it cannot fire", _LOAD)
    if rule.health == "unknown":
        return Check(title, None, "has not been evaluated yet")
    if rule.health != "ok":
        return Check(title, False, f"cannot be evaluated: {rule.last_error}", "promtool check rules says more.")
    looks_at = inputs(rule.query, told.recorded)
    absent = [one for one in looks_at if one not in told.present | told.declared]
    if absent and rule.state != "firing":  # one that looks for absence has found it
        said = f"is loaded, and looks at {listed(absent)}, which no scraped page has: it cannot fire"
        return Check(title, False, said, "Are agents and hub of this version among Prometheus' targets?")
    quiet = [one for one in looks_at if one in told.declared]
    now = "fires now" if rule.state == "firing" else f"none of {listed(quiet)} now" if quiet else "quiet"
    return Check(title, True, f"loaded and evaluated, {now}")


def _records(group: str, names: tuple[str, ...], loaded: dict[str, Rule]) -> Check:
    title = f"rules {group}"
    if missing := [name for name in names if name not in loaded]:
        return Check(title, False, f"{len(missing)} of {len(names)} are not loaded: {listed(missing)}", _LOAD)
    if sick := [name for name in names if loaded[name].health == "err"]:
        said = f"cannot be evaluated: {listed([f'{name} ({loaded[name].last_error})' for name in sick])}"
        return Check(title, False, said, "Dashboards lack these: two exporters that tell of the same thing?")
    return Check(title, True, f"{len(names)} loaded and evaluated")
