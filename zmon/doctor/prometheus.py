"""Checks Prometheus: its scrapes of agents and hub, the timely evaluation of rules, and the links in its alerts.

Source: Prometheus' HTTP API, https://prometheus.io/docs/prometheus/latest/querying/api/ (tried with 2.42).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import ceil
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import yaml

from zmon.doctor.check import TIMEOUT_SECONDS, Check
from zmon.doctor.prometheus_state import PrometheusState, RuleGroup, Target, recorded, recorded_rules
from zmon.doctor.rules import inputs
from zmon.errors import Unreachable
from zmon.format import counted, listed
from zmon.schema.scraping import AGENT, AGENT_JOB, HUB, LONGEST_SECONDS, duration_seconds, is_agent, made_for
from zmon.web import client

LATE_INTERVALS = 3  # a rule group is late after this many intervals without an evaluation
_LABELS = {"zmon_dashboard": "dashboard", "zmon_docs": "runbooks"}  # external label → the target of its links


async def ask(session: aiohttp.ClientSession, url: str) -> PrometheusState | Check:
    """Send all requests to Prometheus, and return its state, or one inert check if it does not answer."""
    api = _Api(session, url)
    try:
        time, runtime, targets, rules, config, alertmanagers, agents, hubs = await asyncio.gather(
            api.get("query", query="time()"),
            api.get("status/runtimeinfo"),
            api.get("targets", state="active"),
            api.get("rules"),
            api.get("status/config"),
            api.get("alertmanagers"),
            api.labels("group by (host) (zmon_source_up)"),
            api.labels("group by (job, instance) (zmon_hub_pass_seconds)"),
        )
        groups = tuple(msgspec.convert(group, RuleGroup) for group in rules["groups"])
        present, declared = await _inputs_of_alerts(api, groups)
        now = float(time["result"][0])
        return PrometheusState(
            url=url,
            now=now,
            up_seconds=now - msgspec.convert(runtime["startTime"], datetime).timestamp(),
            config_loaded=runtime.get("reloadConfigSuccess"),
            targets=tuple(msgspec.convert(target, Target) for target in targets["activeTargets"]),
            groups=groups,
            external_labels=((yaml.safe_load(config["yaml"]) or {}).get("global") or {}).get("external_labels") or {},
            alertmanagers=tuple(
                re.sub(r"/api/v\d/alerts$", "", active["url"]) for active in alertmanagers["activeAlertmanagers"]
            ),
            present=present,
            declared=declared,
            agent_hosts=frozenset(labels["host"] for labels in agents if "host" in labels),
            hubs=frozenset((labels.get("job", ""), labels.get("instance", "")) for labels in hubs),
        )
    except Unreachable as error:
        next_step = "Without it there is no history and no page. Start Prometheus, or set its URL with --prometheus."
        return Check("Prometheus", False, str(error), next_step)
    except (KeyError, TypeError, IndexError, ValueError, yaml.YAMLError) as error:
        result = f"{url} does not answer like Prometheus ({error!r})"
        return Check("Prometheus", False, result, "Check the URL in --prometheus.")


@dataclass(frozen=True)
class _Api:
    """The HTTP API of one Prometheus. Raises Unreachable, or KeyError and TypeError if it is another program."""

    session: aiohttp.ClientSession
    url: str

    async def get(self, path: str, **query: str) -> Any:
        """Return the data of an answer."""
        answer = await client.get(self.session, f"{self.url}/api/v1/{path}", dict, TIMEOUT_SECONDS, **query)
        return answer["data"]

    async def labels(self, promql: str) -> list[dict[str, str]]:
        """Return the labels of each series that an expression selects now."""
        return [series["metric"] for series in (await self.get("query", query=promql))["result"]]


async def _inputs_of_alerts(api: _Api, groups: Sequence[RuleGroup]) -> tuple[frozenset[str], frozenset[str]]:
    """Return the selectors in zmon's alerts that select series now, and the others whose metric a page declares."""
    alerts = (rule for group in groups for rule in group.rules if rule.name.startswith("Zmon"))
    expressions = recorded(groups)
    selectors = sorted({selector for alert in alerts for selector in inputs(alert.query, expressions)})
    series = await asyncio.gather(*(api.labels(f"group({selector})") for selector in selectors))
    present = frozenset(selector for selector, result in zip(selectors, series, strict=True) if result)
    absent = [selector for selector in selectors if selector not in present]
    metadata = await asyncio.gather(*(api.get("metadata", metric=selector) for selector in absent))
    return present, frozenset(selector for selector, result in zip(absent, metadata, strict=True) if result)


def checks(state: PrometheusState, hosts: list[str]) -> list[Check]:
    """Return the checks of configuration, scrapes, rules and links. `hosts`: their agents have answered the hub."""
    configuration = Check("Prometheus", True, f"{state.url} answers")
    if state.config_loaded is False:
        result = f"{state.url} failed to reload its configuration and still uses the previous one"
        configuration = Check("Prometheus", False, result, "Run promtool check config prometheus.yml for the reason.")
    return [configuration, *_scrapes(state), *_unscraped(state, hosts), _evaluation(state), *_links(state)]


def _scrapes(state: PrometheusState) -> list[Check]:
    """Check that agents and hub are scraped, and often enough. There is a check for each target that is not up."""
    ours = [target for target in state.targets if "zmon" in target.labels.get("job", "")]
    checks = [
        Check(
            f"scrape {target.labels.get('instance', target.scrape_url)}",
            None if target.health == "unknown" else False,
            f"{target.labels['job']} is {target.health}: {target.last_error or 'not scraped yet'}",
            "" if target.health == "unknown" else f"On the host of Prometheus, try `curl -s {target.scrape_url}`",
        )
        for target in ours
        if target.health != "up"
    ]
    up = [target for target in ours if target.health == "up"]
    if not any(is_agent(target.labels) for target in ours):
        result = f"no target has a job name that ends in {AGENT_JOB}; the alert rules find agents by this name"
        checks.append(Check("scrape agents", False, result, f"Add a scrape_config with job_name: {AGENT_JOB}."))
    if not state.hubs:
        result = "Prometheus has no series of a hub, so no finding can page"
        checks.append(Check("scrape hub", False, result, "Add a scrape_config with job_name: zmon-hub."))
    checks += scrape_intervals(state)
    agents = sum(is_agent(target.labels) for target in up)
    if agents:
        every = listed(sorted({target.scrape_interval or "unknown" for target in up}))
        checks.insert(
            0, Check("scrape", True, f"{counted(agents, 'agent')} and {counted(len(state.hubs), 'hub')}, every {every}")
        )
    return checks


def _unscraped(state: PrometheusState, hosts: list[str]) -> list[Check]:
    """Return an inert check if some of these hosts have no series of an agent."""
    if missing := sorted(set(hosts) - state.agent_hosts):
        result = f"Prometheus has no series of agents that answer the hub: {listed(missing)}"
        next_step = "Add them as targets. Until then, a stall there pages only while the hub runs."
        return [Check("scrape hosts", False, result, next_step)]
    return []


def _evaluation(state: PrometheusState) -> Check:
    """Check that the rules of zmon are loaded, and that Prometheus evaluates them in time."""
    ours = [group for group in state.groups if any(rule.name.lower().startswith("zmon") for rule in group.rules)]
    if not ours:
        result = "Prometheus has loaded no rule of zmon, so nothing pages"
        return Check("rule evaluation", False, result, "Add dashboards/rules/zmon.yaml to rule_files.")
    # The first evaluation of a group is at some moment of its first interval after the start of Prometheus.
    up_seconds = 0.0 if state.up_seconds is None else state.up_seconds
    waiting = [group for group in ours if not group.is_evaluated and up_seconds < group.interval]
    due = [group for group in ours if group not in waiting]
    if not due:
        return Check("rule evaluation", None, "Prometheus has just started, and no rule group was due yet")
    if_late = "Alerts come late. Give Prometheus more CPU, or fewer rules."
    for group in due:
        age = state.now - group.last_evaluation.timestamp()
        if not group.is_evaluated or age > LATE_INTERVALS * group.interval:
            when = f"last {age:.0f} s ago" if group.is_evaluated else "never"
            result = f"group {group.name} is due every {group.interval:g} s, but was evaluated {when}"
            return Check("rule evaluation", False, result, if_late)
        if group.evaluation_time > group.interval:
            result = f"group {group.name} takes {group.evaluation_time:.1f} s, but is due every {group.interval:g} s"
            return Check("rule evaluation", False, result, if_late)
    not_due = f"; not due yet: {listed([group.name for group in waiting])}" if waiting else ""
    oldest = max(0.0, *(state.now - group.last_evaluation.timestamp() for group in due))
    return Check("rule evaluation", True, f"{len(due)} groups, the oldest result is {oldest:.1f} s old{not_due}")


def _links(state: PrometheusState) -> list[Check]:
    """Check that alerts have what their links to dashboard and runbooks need."""
    if missing := [label for label in _LABELS if not state.external_labels.get(label)]:
        targets = " and ".join(_LABELS[label] for label in missing)
        result = f"external label {' and '.join(missing)} is not set, so links to {targets} in pages lead nowhere"
        return [Check("links in pages", False, result, "Set it under global: external_labels: in prometheus.yml.")]
    docs = state.external_labels["zmon_docs"]
    if docs.startswith("/") and not Path(docs, "docs", "runbooks.md").is_file():
        result = f"{docs}/docs/runbooks.md does not exist on this machine, so links to runbooks in pages lead nowhere"
        return [Check("links in pages", False, result, "Set external label zmon_docs to the URL that serves docs/.")]
    return [Check("links in pages", True, " and ".join(state.external_labels[label] for label in _LABELS))]


def scrape_intervals(state: PrometheusState) -> list[Check]:
    """Return an inert check if agents or hubs are scraped too seldom for the loaded rules.

    A window with fewer than two samples has no rate, and a heartbeat that is read too seldom looks like none. So rules
    are made for scrape intervals, which they record (`zmon/schema/scraping.py`). Shorter intervals work as well.
    """
    rules = made_for(recorded_rules(state.groups))
    up = [target for target in state.targets if target.health == "up"]
    hubs = [target for target in up if (target.labels.get("job"), target.labels.get("instance")) in state.hubs]
    scraped = {AGENT: _longest(target for target in up if is_agent(target.labels)), HUB: _longest(hubs)}
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


def _longest(targets: Iterable[Target]) -> float:
    """Return the longest scrape interval in seconds; 0 if none is known, because Prometheus is older than 2.31."""
    return max((duration_seconds(target.scrape_interval) for target in targets if target.scrape_interval), default=0.0)
