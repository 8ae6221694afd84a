"""Checks that Prometheus scrapes agents and hub as often as the loaded rules need.

A window with fewer than two samples has no rate, and a heartbeat that is read too seldom looks like none. So rules are
made for scrape intervals, which they record (`zmon/schema/scraping.py`). Shorter intervals work as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import ceil

from zmon.doctor.check import Check
from zmon.doctor.prometheus_state import PrometheusState, RuleGroup, Target
from zmon.schema.scraping import AGENT, HUB, LONGEST_SECONDS, RecordedRule, duration_seconds, made_for

AGENT_JOB = "zmon-agent"  # the alert rules find agents by scrape jobs whose name ends in this


def is_agent(target: Target) -> bool:
    """Return True if the alert rules take the target for an agent."""
    return target.labels.get("job", "").endswith(AGENT_JOB)


def recorded_rules(groups: Iterable[RuleGroup]) -> Iterator[RecordedRule]:
    """Yield the rules that Prometheus has loaded."""
    return (RecordedRule(rule.name, rule.labels, rule.query) for group in groups for rule in group.rules)


def checks(state: PrometheusState) -> list[Check]:
    """Return an inert check if agents or hubs are scraped too seldom for the loaded rules."""
    rules = made_for(recorded_rules(state.groups))
    up = [target for target in state.targets if target.health == "up"]
    scraped = {
        AGENT: _longest(target for target in up if is_agent(target)),
        HUB: _longest(target for target in up if _is_hub(target, state)),
    }
    slow = {daemon: seconds for daemon, seconds in scraped.items() if seconds > rules.get(daemon, seconds)}
    if not slow:
        return []
    result = ", ".join(
        f"{daemon}s every {seconds:g} s, but the loaded rules are made for {rules[daemon]} s"
        for daemon, seconds in slow.items()
    )
    if max(slow.values()) > LONGEST_SECONDS:
        next_step = f"Set scrape_interval to {' and '.join(f'{rules[daemon]}s ({daemon}s)' for daemon in slow)}."
    else:
        agents, hub = (f"{ceil(scraped[daemon]) or rules.get(daemon, LONGEST_SECONDS)}s" for daemon in (AGENT, HUB))
        command = f"`python -m dashboards.rules --agents {agents} --hub {hub} --out DIR`"
        next_step = f"Load the rules that {command} makes, in place of these, or scrape more often."
    return [Check("scrape interval", False, result, next_step)]


def _is_hub(target: Target, state: PrometheusState) -> bool:
    return (target.labels.get("job"), target.labels.get("instance")) in state.hubs


def _longest(targets: Iterable[Target]) -> float:
    """Return the longest scrape interval in seconds; 0 if there is no target, or none tells its interval."""
    seconds = [0.0]
    for target in targets:
        if target.scrape_interval:  # Prometheus tells it since 2.31
            seconds.append(duration_seconds(target.scrape_interval))
    return max(seconds)
