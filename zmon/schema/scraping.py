"""The intervals at which Prometheus scrapes zmon, and those for which its loaded rules are made.

The windows of alert and recording rules follow from the scrape intervals (`dashboards/rules`). The rules record the
intervals that they are made for, so that the dashboard and `zmon doctor` can read them. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

# The series has the label `daemon`, which is AGENT or HUB. Its value is the longest scrape interval in seconds.
MADE_FOR = "zmon:rules_scrape_interval:seconds"
AGENT, HUB = "agent", "hub"
AGENT_JOB = "zmon-agent"  # the alert rules find agents by scrape jobs whose name ends in this
LONGEST_SECONDS = 60  # rules for a year of history have windows of five minutes, and a window has at least four samples

_RECORDED = re.compile(r"vector\((\d+)\)")
_UNITS = {"y": 31536000.0, "w": 604800.0, "d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_DURATION = re.compile("".join(rf"(?:(\d+){unit})?" for unit in _UNITS), re.ASCII)


def is_agent(labels: Mapping[str, str]) -> bool:
    """Return True if the alert rules take a target with these labels for an agent."""
    return labels.get("job", "").endswith(AGENT_JOB)


def duration_seconds(text: str) -> float:
    """Return the seconds of a duration of Prometheus, such as 1m30s. Raises ValueError."""
    match = _DURATION.fullmatch(text)
    if not text or match is None:
        raise ValueError(f"{text!r} is not a duration such as 15s or 1m30s")
    return sum(float(number or 0) * size for number, size in zip(match.groups(), _UNITS.values(), strict=True))


class RecordedRule(NamedTuple):
    """A recording rule: its series, the labels that it adds, and its PromQL."""

    series: str
    labels: Mapping[str, str]
    promql: str


def made_for(rules: Iterable[RecordedRule]) -> dict[str, int]:
    """Return the longest scrape intervals that all these rules are made for, in seconds by daemon.

    A daemon is missing if no rule tells its interval: the rules are not loaded, or are of an older version.
    """
    seconds: dict[str, int] = {}
    for rule in rules:
        if rule.series == MADE_FOR and (number := _RECORDED.fullmatch(rule.promql)):
            daemon = rule.labels.get("daemon", "")
            seconds[daemon] = min(int(number[1]), seconds.get(daemon, LONGEST_SECONDS))
    return seconds


def duration_text(seconds: int) -> str:
    """Format whole seconds as Prometheus does: 20s, 1m, 1m30s."""
    minutes, rest = divmod(seconds, 60)
    return (f"{minutes}m" if minutes else "") + (f"{rest}s" if rest or not minutes else "")
