"""Checks that pages reach people: from Prometheus to Alertmanager, and through its routes to a receiver.

The alert ZmonWatchdog always fires. Its arrival proves that Prometheus reaches Alertmanager.
Source: Alertmanager's API v2 (tried with 0.25). Alertmanager hides the secrets of its configuration itself.
"""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from prometheus_client.parser import text_string_to_metric_families

from zmon.doctor.check import TIMEOUT_SECONDS, Check
from zmon.doctor.routes import Destination, destinations, integrations, is_silenced
from zmon.doctor.rules import shipped
from zmon.errors import Unreachable
from zmon.format import listed
from zmon.web import client

# Prometheus sends a firing alert again every minute. It may send it for the first time before it knows Alertmanager.
RESEND_SECONDS = 75.0
NO_ALERTMANAGER = Check(
    "Alertmanager",
    False,
    "Prometheus has no Alertmanager, so alerts fire but reach nobody",
    "Add one under alerting: alertmanagers: in prometheus.yml.",
)


@dataclass(frozen=True)
class AlertmanagerState:
    """The state of one Alertmanager, as its API reports it."""

    url: str
    config: dict[str, Any]
    watchdog: dict[str, str] | None  # labels of the alert ZmonWatchdog; None: it has not arrived
    silences: tuple[dict[str, Any], ...]  # those that are active
    sent: dict[str, float]  # number of notifications since Alertmanager started, by integration
    failed: dict[str, float]  # how many of them failed


@dataclass(frozen=True)
class Login:
    """The password of the Alertmanager that `zmon up` started. It is sent to no other, whatever Prometheus reports."""

    url: str
    user: str
    password_file: Path

    def headers(self, url: str) -> dict[str, str]:
        """Return the headers of requests to the Alertmanager at `url`."""
        if url.rstrip("/") != self.url.rstrip("/"):
            return {}
        try:
            return client.basic_auth(self.user, self.password_file.read_text().strip())
        except OSError:
            return {}  # Alertmanager then refuses the request, which the check shows


async def ask(session: aiohttp.ClientSession, url: str) -> AlertmanagerState | Check:
    """Send all requests to Alertmanager, and return its answers, or one inert check if it does not answer."""

    async def api(path: str, **query: str) -> Any:
        return await client.get(session, f"{url}/api/v2/{path}", Any, TIMEOUT_SECONDS, **query)

    try:
        status, alerts, silences, page = await asyncio.gather(
            api("status"),
            api("alerts", filter='alertname="ZmonWatchdog"'),
            api("silences"),
            _metrics_page(session, f"{url}/metrics"),
        )
        sent, failed = (_by_integration(page, f"alertmanager_notifications{which}") for which in ("", "_failed"))
        active = tuple(silence for silence in silences if silence["status"]["state"] == "active")
        labels = next((alert["labels"] for alert in alerts), None)
        return AlertmanagerState(url, yaml.safe_load(status["config"]["original"]), labels, active, sent, failed)
    except Unreachable as error:
        next_step = "zmon cannot check where pages go. Run zmon doctor on the machine of Prometheus and Alertmanager."
        reason = str(error).removesuffix(f". {error.next_step}")  # --http-config, which has no section for it
        return Check("Alertmanager", False, reason, next_step)
    except (KeyError, TypeError, ValueError, yaml.YAMLError) as error:
        result = f"{url} does not answer like Alertmanager ({error!r})"
        return Check("Alertmanager", False, result, "Check the Alertmanager address in prometheus.yml.")


def checks(state: AlertmanagerState, jobs: list[str], up_seconds: float | None) -> list[Check]:
    """Check that alerts arrive, and that each critical alert has a receiver. `up_seconds`: since Prometheus started."""
    pages = [_receivers_of(state, name, jobs) for name, severity in shipped().alerts.items() if severity == "critical"]
    return [_arrival(state, up_seconds), *pages, *_undelivered(state)]


def _arrival(state: AlertmanagerState, up_seconds: float | None) -> Check:
    """Check that the alert that always fires has arrived."""
    if state.watchdog is not None:
        return Check("Alertmanager", True, f"{state.url} has ZmonWatchdog from Prometheus")
    if up_seconds is not None and up_seconds < RESEND_SECONDS:
        result = f"{state.url} answers; Prometheus started {up_seconds:.0f} s ago and sends alerts every minute"
        return Check("Alertmanager", None, result, "Run zmon doctor again in a minute.")
    result = f"{state.url} has no ZmonWatchdog, which always fires: Prometheus does not reach it"
    return Check("Alertmanager", False, result, "See the logs of Prometheus for 'Error sending alert'.")


def _receivers_of(state: AlertmanagerState, alert: str, jobs: list[str]) -> Check:
    """Check that an alert has a receiver. An alert about jobs needs one for each job."""
    name = f"page {alert}"
    job_ids = jobs if alert in shipped().of_jobs and jobs else [""]
    try:
        job_checks = [_receivers_for_job(state, name, alert, job_id) for job_id in job_ids]
    except re.error as error:
        result = f"zmon cannot evaluate a matcher ({error})"
        next_step = f"Run amtool config routes test alertname={alert} severity=critical instead."
        return Check(name, False, result, next_step)
    if inert := next((check for check in job_checks if check.armed is False), None):
        return inert
    return Check(name, True, listed(list(dict.fromkeys(check.result for check in job_checks))))


def _receivers_for_job(state: AlertmanagerState, name: str, alert: str, job_id: str) -> Check:
    """Check that an alert about one job, or about none if `job_id` is "", is not silenced and has a receiver.

    ZmonWatchdog has the labels that Prometheus adds to each alert, so this alert gets the labels of ZmonWatchdog too.
    """
    about_job = f" of job {job_id}" if job_id else ""
    labels = {**(state.watchdog or {}), "alertname": alert, "severity": "critical", "job_id": job_id}
    labels |= {"detector": "stall"} if alert == "ZmonStall" else {}
    for silence in state.silences:
        if is_silenced(silence["matchers"], labels):
            comment = silence.get("comment") or "no comment"
            result = f"every page{about_job} is silenced until {silence['endsAt']}: {comment}"
            return Check(name, False, result, f"Expire silence {silence['id']} in Alertmanager if it is not needed.")
    receivers = destinations(state.config, labels)
    integrations_of = integrations(state.config)
    notifying = [receiver for receiver in receivers if integrations_of.get(receiver.name)]
    if not notifying:
        names = listed([receiver.name for receiver in receivers])
        result = f"ends{about_job} in receiver {names}, which notifies nobody, so pages go nowhere"
        return Check(name, False, result, "Add an integration to that receiver; with zmon up: --webhook URL.")
    texts = [_receiver_text(receiver, integrations_of[receiver.name]) for receiver in notifying]
    return Check(name, True, f"ends in receiver {listed(texts)}")


def _receiver_text(receiver: Destination, integration_names: Sequence[str]) -> str:
    intervals = f"; not always: {', '.join(receiver.time_intervals)}" if receiver.time_intervals else ""
    return f"{receiver.name} ({', '.join(integration_names)}{intervals})"


def _undelivered(state: AlertmanagerState) -> list[Check]:
    """Return one inert check for each integration whose notifications have all failed."""
    result = "all {:.0f} notifications since the start of Alertmanager failed"
    next_step = "See the log of Alertmanager; check that the address is right and that its host can reach it."
    return [
        Check(f"delivery by {integration}", False, result.format(failed), next_step)
        for integration, failed in sorted(state.failed.items())
        if failed and failed >= state.sent[integration]
    ]


async def _metrics_page(session: aiohttp.ClientSession, url: str) -> str:
    """Return the metrics page; "" if it cannot be read."""
    try:
        async with session.get(url, timeout=aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)) as answer:
            return await answer.text() if answer.status == 200 else ""
    except (aiohttp.ClientError, TimeoutError, OSError):
        return ""  # a proxy may hide the page; in that case delivery is not checked


def _by_integration(page: str, family: str) -> dict[str, float]:
    """Return the sum of a metric for each integration."""
    counts: dict[str, float] = defaultdict(float)
    for metric in text_string_to_metric_families(page):
        if metric.name == family:
            for sample in metric.samples:  # failures have one sample for each reason
                counts[sample.labels["integration"]] += sample.value
    return counts
