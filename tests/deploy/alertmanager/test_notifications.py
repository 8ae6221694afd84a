"""Tests of the examples with a real Alertmanager: eight alerts of a job are one notification, and one when they end."""

import subprocess
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest
import requests
import yaml

from lab.stage.webhook import Webhook
from scripts.alertmanager import examples
from tests.boxes import eventually
from tests.places import REPOSITORY
from tests.ports import free_port
from zmon.stack import find_program

pytestmark = pytest.mark.e2e

TEMPLATE = REPOSITORY / "deploy/alertmanager/zmon.tmpl"
NUM_ALERTS = 8
INTERVALS = {
    # The alerts of a test arrive within a second, so a group waits for one second.
    "group_wait: 5s": "group_wait: 1s",
    "group_wait: 30s": "group_wait: 1s",
    "group_interval: 1m": "group_interval: 200ms",
}
SETTLED_SECONDS = 2.0  # the wait of a new group (1 s), and then five intervals of it
LINKS = {"dashboard_url": "https://zmon.example.org/job?job_id=ads&rank=2", "runbook_url": "https://git.example.org/x"}


def send_to_webhook(config, folder, url):
    """Let every receiver of an example post to this URL, whatever its service is."""
    (folder / "secret").write_text(url)
    for receiver in config["receivers"]:
        for slack in receiver.get("slack_configs", ()):
            slack["api_url_file"] = str(folder / "secret")
        for pagerduty in receiver.get("pagerduty_configs", ()):
            pagerduty |= {"routing_key_file": str(folder / "secret"), "url": url}
        for opsgenie in receiver.get("opsgenie_configs", ()):
            opsgenie |= {"api_key_file": str(folder / "secret"), "api_url": url}
        for webhook in receiver.get("webhook_configs", ()):
            webhook["url"] = url


SLOW_EXAMPLES = [pytest.param(name, marks=pytest.mark.slow) for name in ("pagerduty", "opsgenie", "teams")]


@pytest.fixture(params=["slack", *SLOW_EXAMPLES])
def alerting(request, tmp_path):
    """An Alertmanager with an example: its URL, the name of the example, and the calls of its receivers."""
    text = examples()[f"{request.param}.yml"].replace("/etc/alertmanager/zmon.tmpl", str(TEMPLATE))
    for shipped, quick in INTERVALS.items():
        assert shipped in text
        text = text.replace(shipped, quick)
    address = f"127.0.0.1:{free_port()}"
    with closing(Webhook()) as webhook, (tmp_path / "log").open("wb") as log:
        config = yaml.safe_load(text)
        send_to_webhook(config, tmp_path, webhook.url)
        (tmp_path / "alertmanager.yml").write_text(yaml.safe_dump(config))
        command = [find_program("prometheus-alertmanager", "alertmanager"), "--cluster.listen-address="]
        command += [f"--config.file={tmp_path}/alertmanager.yml", f"--storage.path={tmp_path}/data"]
        process = subprocess.Popen([*command, f"--web.listen-address={address}"], stdout=log, stderr=log)
        try:
            assert eventually(lambda: is_ready(address), 20), (tmp_path / "log").read_text()
            yield f"http://{address}", request.param, webhook.calls
        finally:
            process.terminate()
            process.wait(timeout=10)


def is_ready(address):
    """Return whether the Alertmanager at this address answers that it is ready."""
    try:
        return requests.get(f"http://{address}/-/ready", timeout=2).status_code == 200
    except requests.ConnectionError:
        return False


def post(url, alerts, seconds):
    """Send alerts that begin now and end `seconds` from now; a negative number means that they have ended."""
    now = datetime.now(UTC)
    end = now + timedelta(seconds=seconds)
    times = {"startsAt": min(now, end - timedelta(seconds=1)).isoformat(), "endsAt": end.isoformat()}
    requests.post(f"{url}/api/v2/alerts", json=[alert | times for alert in alerts], timeout=5).raise_for_status()


def alert(number, **labels):
    """Return a critical alert about job `ads`, with these changes of its labels."""
    names = {"alertname": "ZmonFindingCritical", "job_id": "ads", "severity": "critical", "detector": f"d{number}"}
    return {"labels": names | labels, "annotations": LINKS | {"summary": f"fault {number}", "description": "Look."}}


def fires(service, call):
    """Return True if a call to this service reports a group that fires, False if it reports its end."""
    match service:
        case "slack":
            return call["attachments"][0]["title"].startswith("[CRITICAL] fault ")
        case "pagerduty":
            return call["event_action"] == "trigger"
        case "opsgenie":
            return "message" in call  # the call that closes an alert has none
    return call["status"] == "firing"


def test_eight_alerts_of_a_job_are_one_notification_and_one_when_they_end(alerting):
    url, service, calls = alerting
    alerts = [alert(number) for number in range(NUM_ALERTS)]
    post(url, alerts, 600)
    assert eventually(lambda: calls, 10)
    time.sleep(SETTLED_SECONDS)
    assert [fires(service, call) for _, call in calls] == [True]
    assert [number for number in range(NUM_ALERTS) if f"fault {number}" not in str(calls[0][1])] == []
    post(url, alerts, -1)
    assert eventually(lambda: len(calls) == 2, 10)
    time.sleep(SETTLED_SECONDS)
    assert [fires(service, call) for _, call in calls] == [True, False]


def test_each_job_severity_and_kind_of_alert_is_a_notification_of_its_own(alerting):
    """Two findings of a job, one of another job, a warning, and nine agents that are down: four notifications."""
    url, _, calls = alerting
    agents = [alert(0, alertname="ZmonAgentDown", job_id="", detector="", instance=f"n{n}") for n in range(9)]
    post(url, [alert(1), alert(2), alert(3, job_id="search"), alert(4, severity="warning"), *agents], 600)
    assert eventually(lambda: len(calls) == 4, 10)
    time.sleep(SETTLED_SECONDS)
    assert len(calls) == 4
