"""What Prometheus says of itself: what it scrapes, which rules it has and how they do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

import msgspec


class Target(msgspec.Struct, rename="camel"):
    """One page that it scrapes."""

    labels: dict[str, str]
    scrape_url: str
    health: str
    last_error: str = ""
    scrape_interval: str = ""


class Rule(msgspec.Struct, rename="camel"):
    """One rule as it was loaded."""

    name: str
    type: str
    query: str
    health: str
    last_error: str | None = None
    state: str = ""  # of an alert


class RuleGroup(msgspec.Struct, rename="camel"):
    """Rules that are evaluated together."""

    name: str
    interval: float
    rules: list[Rule]
    evaluation_time: float
    last_evaluation: datetime


@dataclass(frozen=True)
class PrometheusState:
    """What Prometheus says of itself."""

    url: str
    now: float  # unix seconds on its clock
    up_seconds: float | None
    config_loaded: bool | None
    targets: tuple[Target, ...]
    groups: tuple[RuleGroup, ...]
    external_labels: Mapping[str, str]
    alertmanagers: tuple[str, ...]  # base URLs
    present: frozenset[str]  # selectors of the loaded alerts that select something now
    declared: frozenset[str]  # … and those a scraped page knows, though it has no series of them now
    agent_hosts: frozenset[str]
    num_hubs: int

    @property
    def recorded(self) -> dict[str, str]:
        """Expressions of its recording rules, by name."""
        return recorded(self.groups)


def recorded(groups: Iterable[RuleGroup]) -> dict[str, str]:
    """Expressions of recording rules, by name."""
    return {rule.name: rule.query for group in groups for rule in group.rules if rule.type == "recording"}
