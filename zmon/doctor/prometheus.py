"""Does Prometheus scrape agents and hub, does it evaluate in time, and where do the links in its alerts lead?

Source: Prometheus' HTTP API, https://prometheus.io/docs/prometheus/latest/querying/api/ (tried with 2.42).
"""

from __future__ import annotations

import asyncio
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import yaml

from zmon.doctor.check import TIMEOUT_SECONDS, Check
from zmon.doctor.rules import inputs
from zmon.doctor.told import PrometheusState, RuleGroup, Target, recorded
from zmon.errors import Unreachable
from zmon.format import counted, listed
from zmon.web import client

SCRAPE_SECONDS = 5.0  # at most: the alert rules are written for that
LATE_INTERVALS = 3  # evaluations of a group that did not come
AGENT_JOB = "zmon-agent"  # how the scrape job's name ends by which the alert rules find agents
_LABELS = {"zmon_dashboard": "dashboard", "zmon_docs": "runbooks"}
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0, "y": 31536000.0}


async def ask(session: aiohttp.ClientSession, url: str) -> PrometheusState | Check:
    """All of it; one inert Check where it does not answer."""

    async def api(path: str, **query: str) -> Any:
        answer = await client.get(session, f"{url}/api/v1/{path}", dict, TIMEOUT_SECONDS, **query)
        return answer["data"]

    async def vector(promql: str) -> list[dict[str, str]]:
        return [series["metric"] for series in (await api("query", query=promql))["result"]]

    try:
        clock, run, targets, loaded, config, senders, hosts, hubs = await asyncio.gather(
            api("query", query="time()"),
            api("status/runtimeinfo"),
            api("targets", state="active"),
            api("rules"),
            api("status/config"),
            api("alertmanagers"),
            vector("group by (host) (zmon_source_up)"),
            vector("group by (job, instance) (zmon_hub_pass_seconds)"),
        )
        groups = tuple(msgspec.convert(group, RuleGroup) for group in loaded["groups"])
        alerts = (rule for group in groups for rule in group.rules if rule.name.startswith("Zmon"))
        made = recorded(groups)
        asked = sorted({one for alert in alerts for one in inputs(alert.query, made)})
        series = await asyncio.gather(*(vector(f"group({one})") for one in asked))
        absent = [one for one, found in zip(asked, series, strict=True) if not found]
        known = await asyncio.gather(*(api("metadata", metric=one) for one in absent))
        now = float(clock["result"][0])
        return PrometheusState(
            url,
            now,
            now - msgspec.convert(run["startTime"], datetime).timestamp(),
            run.get("reloadConfigSuccess"),
            tuple(msgspec.convert(target, Target) for target in targets["activeTargets"]),
            groups,
            ((yaml.safe_load(config["yaml"]) or {}).get("global") or {}).get("external_labels") or {},
            tuple(re.sub(r"/api/v\d/alerts$", "", one["url"]) for one in senders["activeAlertmanagers"]),
            frozenset(one for one, found in zip(asked, series, strict=True) if found),
            frozenset(one for one, found in zip(absent, known, strict=True) if found),
            frozenset(labels["host"] for labels in hosts if "host" in labels),
            len(hubs),
        )
    except Unreachable as error:
        nobody = "Nobody keeps history and nobody is paged: start it, or name it with --prometheus."
        return Check("Prometheus", False, str(error), nobody)
    except (KeyError, TypeError, IndexError, ValueError, yaml.YAMLError) as error:
        said = f"what answers at {url} is not Prometheus as zmon knows it ({error!r})"
        return Check("Prometheus", False, said, "Is --prometheus right?")


def checks(told: PrometheusState, hosts: list[str]) -> list[Check]:
    """What it scrapes, whether in time, and the links. `hosts`: those whose agents the hub hears."""
    found = [Check("Prometheus", True, f"{told.url} answers")]
    if told.config_loaded is False:
        said = f"{told.url} could not load its configuration again and runs on with the one before"
        found = [Check("Prometheus", False, said, "promtool check config prometheus.yml says why.")]
    return [*found, *_scrapes(told), *_unscraped(told, hosts), _evaluation(told), *_links(told)]


def _scrapes(told: PrometheusState) -> list[Check]:
    ours = [t for t in told.targets if "zmon" in t.labels.get("job", "")]
    found = [
        Check(
            f"scrape {target.labels.get('instance', target.scrape_url)}",
            None if target.health == "unknown" else False,
            f"{target.labels['job']} is {target.health}: {target.last_error or 'not scraped yet'}",
            "" if target.health == "unknown" else f"From Prometheus' host: `curl -s {target.scrape_url}`",
        )
        for target in ours
        if target.health != "up"
    ]
    up = [target for target in ours if target.health == "up"]
    if not any(_of_agent(target) for target in ours):
        said = f"no target's job ends in {AGENT_JOB}, by which the alert rules find the agents"
        found.append(Check("scrape agents", False, said, f"Add a scrape_config with job_name: {AGENT_JOB}."))
    if not told.num_hubs:
        said = "it has no series of a hub: no finding can reach a pager"
        found.append(Check("scrape hub", False, said, "Add a scrape_config with job_name: zmon-hub."))
    if slow := sorted({t.scrape_interval for t in up if _seconds(t.scrape_interval) > SCRAPE_SECONDS}):
        said = f"scraped every {listed(slow)}: more than {SCRAPE_SECONDS:g} s, for which no alert rule is written"
        found.append(Check("scrape interval", False, said, "Set scrape_interval: 2s for zmon's jobs."))
    agents = sum(map(_of_agent, up))
    if agents:
        every = listed(sorted({target.scrape_interval or "unknown" for target in up}))
        found.insert(
            0, Check("scrape", True, f"{counted(agents, 'agent')} and {counted(told.num_hubs, 'hub')}, every {every}")
        )
    return found


def _of_agent(target: Target) -> bool:
    return target.labels["job"].endswith(AGENT_JOB)


def _unscraped(told: PrometheusState, hosts: list[str]) -> list[Check]:
    if missing := sorted(set(hosts) - told.agent_hosts):
        said = f"the hub hears agents whose series Prometheus does not have: {listed(missing)}"
        return [Check("scrape hosts", False, said, "Stalls there page only while the hub lives: add them as targets.")]
    return []


def _evaluation(told: PrometheusState) -> Check:
    ours = [group for group in told.groups if any(rule.name.lower().startswith("zmon") for rule in group.rules)]
    if not ours:
        said = "no rule of zmon is loaded: nothing pages"
        return Check("rule evaluation", False, said, "Add dashboards/rules/zmon.yaml to rule_files.")
    waiting = [group for group in ours if group.last_evaluation.year == 1 and _not_due(group, told.up_seconds)]
    judged = [group for group in ours if group not in waiting]
    if not judged:
        return Check("rule evaluation", None, "Prometheus has just begun: no group had its turn yet")
    ages = {group.name: told.now - group.last_evaluation.timestamp() for group in judged}
    for group in judged:
        if group.last_evaluation.year == 1 or ages[group.name] > LATE_INTERVALS * group.interval:
            when = "never" if group.last_evaluation.year == 1 else f"last {ages[group.name]:.0f} s ago"
            said = f"group {group.name} is due every {group.interval:g} s and was evaluated {when}"
            return Check("rule evaluation", False, said, "Alerts come late: give Prometheus more CPU, or fewer rules.")
        if group.evaluation_time > group.interval:
            said = f"group {group.name} takes {group.evaluation_time:.1f} s and is due every {group.interval:g} s"
            return Check("rule evaluation", False, said, "Alerts come late: give Prometheus more CPU, or fewer rules.")
    due = f"; not due yet: {listed([group.name for group in waiting])}" if waiting else ""
    oldest = max(0.0, max(ages.values()))
    return Check("rule evaluation", True, f"{len(judged)} groups, the oldest result is {oldest:.1f} s old{due}")


def _not_due(group: RuleGroup, up_seconds: float | None) -> bool:
    """Prometheus begins each group at a moment of its own within its interval."""
    return up_seconds is None or up_seconds < group.interval


def _links(told: PrometheusState) -> list[Check]:
    if missing := [label for label in _LABELS if not told.external_labels.get(label)]:
        what = " and ".join(_LABELS[label] for label in missing)
        said = f"external label {' and '.join(missing)} is not set: links to {what} in pages lead nowhere"
        return [Check("links in pages", False, said, "Set it under global: external_labels: in prometheus.yml.")]
    docs = told.external_labels["zmon_docs"]
    if docs.startswith("/") and not Path(docs, "docs", "runbooks.md").is_file():
        said = f"there is no {docs}/docs/runbooks.md on this machine: links to runbooks in pages lead nowhere"
        return [Check("links in pages", False, said, "Set external label zmon_docs to where docs/ is served.")]
    return [Check("links in pages", True, " and ".join(told.external_labels[label] for label in _LABELS))]


def _seconds(duration: str) -> float:
    """Prometheus' way to write a duration, such as 1m30s."""
    return sum(float(number) * _UNITS[unit] for number, unit in re.findall(r"(\d+)(ms|[smhdwy])", duration))
