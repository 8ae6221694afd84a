"""The state of Prometheus: its targets, and the state of its rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

import msgspec

from zmon.schema.scraping import RecordedRule


class Target(msgspec.Struct, rename="camel"):
    """One page that Prometheus scrapes."""

    labels: dict[str, str]
    scrape_url: str
    health: str
    last_error: str = ""
    scrape_interval: str = ""


class Rule(msgspec.Struct, rename="camel"):
    """One rule that Prometheus has loaded."""

    name: str
    type: str
    query: str
    health: str
    last_error: str | None = None
    labels: dict[str, str] = {}  # those that the rule adds
    state: str = ""  # state of an alert, such as firing; recording rules have none


class RuleGroup(msgspec.Struct, rename="camel"):
    """A group of rules that Prometheus evaluates together."""

    name: str
    interval: float  # seconds
    rules: list[Rule]
    evaluation_time: float  # seconds that the last evaluation took
    last_evaluation: datetime  # in the year 1 before the first one

    @property
    def is_evaluated(self) -> bool:
        """True once the group has been evaluated."""
        return self.last_evaluation.year > 1


@dataclass(frozen=True)
class PrometheusState:
    """The state of Prometheus as its API reports it."""

    url: str
    now: float  # unix seconds on Prometheus' clock
    up_seconds: float | None  # since Prometheus started
    config_loaded: bool | None  # the last reload of the configuration succeeded; None: not reported
    targets: tuple[Target, ...]
    groups: tuple[RuleGroup, ...]
    external_labels: Mapping[str, str]
    alertmanagers: tuple[str, ...]  # base URLs
    present: frozenset[str]  # selectors in the loaded alerts that select series now
    declared: frozenset[str]  # selectors without series now whose metric a scraped page declares
    agent_hosts: frozenset[str]  # hosts of agents that have series
    hubs: frozenset[tuple[str, str]]  # job and instance of each hub that has series


def recorded(groups: Iterable[RuleGroup]) -> dict[str, str]:
    """Return the expressions of recording rules, by name."""
    return {rule.name: rule.query for group in groups for rule in group.rules if rule.type == "recording"}


def recorded_rules(groups: Iterable[RuleGroup]) -> Iterator[RecordedRule]:
    """Yield the rules that Prometheus has loaded."""
    return (RecordedRule(rule.name, rule.labels, rule.query) for group in groups for rule in group.rules)
