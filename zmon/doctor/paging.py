"""Would a page reach anybody? From Prometheus to Alertmanager, through its routes, to a receiver that tells somebody.

That Prometheus reaches Alertmanager is proved by the alert that always fires, ZmonWatchdog, having arrived.
Source: Alertmanager's API v2 (tried with 0.25); secrets in its configuration are hidden by itself.
"""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import aiohttp
import yaml
from prometheus_client.parser import text_string_to_metric_families

from zmon.doctor.check import TIMEOUT_SECONDS, Check
from zmon.doctor.routes import endings, integrations, silenced
from zmon.doctor.rules import shipped
from zmon.errors import Unreachable
from zmon.format import listed
from zmon.web import client

RESEND_SECONDS = (
    75.0  # Prometheus sends a firing alert again every minute; the first time may be before it knew where to
)
NOBODY = Check(
    "Alertmanager",
    False,
    "Prometheus knows none: alerts fire and nobody is told",
    "Add it under alerting: alertmanagers: in prometheus.yml.",
)


@dataclass(frozen=True)
class Pager:
    """One Alertmanager, as it answered."""

    url: str
    config: dict[str, Any]
    watchdog: dict[str, str] | None  # labels of ZmonWatchdog as they arrived
    silences: tuple[dict[str, Any], ...]
    sent: dict[str, float]  # notifications by integration, since it began
    failed: dict[str, float]


async def ask(session: aiohttp.ClientSession, url: str) -> Pager | Check:
    """All that doctor wants to know of it; one inert Check where it does not answer."""

    async def api(path: str, **query: str) -> Any:
        return await client.get(session, f"{url}/api/v2/{path}", Any, TIMEOUT_SECONDS, **query)

    try:
        status, alerts, silences, page = await asyncio.gather(
            api("status"),
            api("alerts", filter='alertname="ZmonWatchdog"'),
            api("silences"),
            _page(session, f"{url}/metrics"),
        )
        sent, failed = (_by_integration(page, f"alertmanager_notifications{which}") for which in ("", "_failed"))
        active = tuple(one for one in silences if one["status"]["state"] == "active")
        labels = next((alert["labels"] for alert in alerts), None)
        return Pager(url, yaml.safe_load(status["config"]["original"]), labels, active, sent, failed)
    except Unreachable as error:
        cannot = "Where pages go cannot be told from here: run zmon doctor where Prometheus and Alertmanager run."
        return Check("Alertmanager", False, str(error), cannot)
    except (KeyError, TypeError, ValueError, yaml.YAMLError) as error:
        said = f"what answers at {url} is not Alertmanager as zmon knows it ({error!r})"
        return Check("Alertmanager", False, said, "Which does Prometheus send alerts to?")


def checks(pager: Pager, jobs: list[str], up_seconds: float | None) -> list[Check]:
    """Whether alerts arrive, and where each critical one ends. `up_seconds`: since Prometheus began."""
    found = [_arrives(pager, up_seconds)]
    found += [_ends(pager, name, jobs) for name, severity in shipped().alerts.items() if severity == "critical"]
    return [*found, *_undelivered(pager)]


def _arrives(pager: Pager, up_seconds: float | None) -> Check:
    if pager.watchdog is not None:
        return Check("Alertmanager", True, f"{pager.url} has ZmonWatchdog from Prometheus")
    if up_seconds is not None and up_seconds < RESEND_SECONDS:
        said = f"{pager.url} answers; Prometheus began {up_seconds:.0f} s ago and sends alerts again every minute"
        return Check("Alertmanager", None, said, "Ask again in a minute.")
    said = f"{pager.url} has no ZmonWatchdog, which always fires: Prometheus does not get through to it"
    return Check("Alertmanager", False, said, "See the logs of Prometheus for 'Error sending alert'.")


def _ends(pager: Pager, alert: str, jobs: list[str]) -> Check:
    """With the labels that Prometheus puts on every alert, for each job there is."""
    name = f"page {alert}"
    try:
        every = [_ends_for(pager, name, alert, job_id) for job_id in jobs or [""]]
    except re.error as error:
        said = f"a matcher cannot be followed ({error})"
        return Check(name, False, said, f"amtool config routes test alertname={alert} severity=critical does.")
    if inert := next((one for one in every if one.armed is False), None):
        return inert
    return Check(name, True, listed(list(dict.fromkeys(one.found for one in every))))


def _ends_for(pager: Pager, name: str, alert: str, job_id: str) -> Check:
    about = f" of job {job_id}" if job_id else ""
    labels = {**(pager.watchdog or {}), "alertname": alert, "severity": "critical", "job_id": job_id}
    labels |= {"detector": "stall"} if alert == "ZmonStall" else {}
    for silence in pager.silences:
        if silenced(silence["matchers"], labels):
            said = f"every page{about} is silenced until {silence['endsAt']}: {silence.get('comment') or 'no comment'}"
            return Check(name, False, said, f"End silence {silence['id']} in Alertmanager when it is not needed.")
    ends, ways = endings(pager.config, labels), integrations(pager.config)
    telling = [end for end in ends if ways.get(end.receiver)]
    if not telling:
        where = listed([end.receiver for end in ends])
        said = f"ends{about} in receiver {where}, which tells nobody: pages go nowhere"
        return Check(name, False, said, "Give that receiver an integration; with zmon up: --webhook URL.")
    told = [
        f"{end.receiver} ({', '.join(ways[end.receiver])}{'; not always: ' if end.times else ''}{', '.join(end.times)})"
        for end in telling
    ]
    return Check(name, True, f"ends in receiver {listed(told)}")


def _undelivered(pager: Pager) -> list[Check]:
    """Integrations of which not one notification got through."""
    return [
        Check(
            f"delivery by {way}",
            False,
            f"all {failed:.0f} notifications since Alertmanager began have failed",
            "Its log says why: is the address right, and reachable from there?",
        )
        for way, failed in sorted(pager.failed.items())
        if failed and failed >= pager.sent[way]
    ]


async def _page(session: aiohttp.ClientSession, url: str) -> str:
    try:
        async with session.get(url, timeout=aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)) as answer:
            return await answer.text() if answer.status == 200 else ""
    except (aiohttp.ClientError, TimeoutError, OSError):
        return ""  # behind a proxy that hides it: then deliveries are not told of


def _by_integration(page: str, family: str) -> dict[str, float]:
    found: dict[str, float] = defaultdict(float)
    for metric in text_string_to_metric_families(page):
        if metric.name == family:
            for sample in metric.samples:  # one for each reason of failure
                found[sample.labels["integration"]] += sample.value
    return found
