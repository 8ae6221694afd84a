"""Tests that a fault sends a single page, even if its diagnosis changes or hub and Prometheus restart.

Prometheus, Alertmanager and a webhook are real. The hub is only its journal and its page, which can be shut. The agent
is a page with one series.
"""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import requests

from tests import build
from tests.boxes import eventually
from tests.places import REPOSITORY
from tests.ports import free_port
from tests.stack.quick import quick_alertmanager, quick_prometheus
from zmon import metrics
from zmon.hub.journal import Journal
from zmon.schema.finding import Finding
from zmon.stack import RULES, find_program
from zmon.stack.config import alertmanager_yaml, prometheus_yaml

pytestmark = [pytest.mark.e2e, pytest.mark.slow]  # it waits half a minute; pages of real jobs are in every run

FOLDER = REPOSITORY / "dashboards/rules"
# The time until a change in the hub has reached the receivers: a scrape, an evaluation, `keep_firing_for` and the next
# notification of the group, which take 15 s at most.
SETTLED_SECONDS = 16.0
QUICK_SECONDS = 7.0  # with short intervals 4 s at most; Prometheus finds a new Alertmanager within 5 s
INTERVALS = ("quick", "shipped")
STALLED, RESOLVED = "firing: ZmonStall", "resolved: ZmonStall"
WARNED = "ZmonFindingWarning"
BACK, KILLED = "the hub is back", "Alertmanager is killed"  # moments that the scenario marks


class PageServer(ThreadingHTTPServer):
    """A server that answers GET with a page, or 503 while it is shut, and stores posted notifications."""

    daemon_threads = True

    def __init__(self, page: Callable[[], bytes] = lambda: b"") -> None:
        server = self
        self.shut = False
        self.posted: list[dict[str, Any]] = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(503 if server.shut else 200)
                self.send_header("Content-Type", metrics.CONTENT_TYPE)
                self.end_headers()
                self.wfile.write(b"" if server.shut else page())

            def do_POST(self) -> None:
                server.posted.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def address(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self.server_address[1]}"


class Alerting:
    """Prometheus and Alertmanager as zmon configures them, a hub with invented findings, and the two receivers."""

    def __init__(self, room: Path, quick: bool) -> None:
        self._room = room
        self.settled_seconds = QUICK_SECONDS if quick else SETTLED_SECONDS
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._receivers = {"pager": PageServer(), "desk": PageServer()}
        self._marks: dict[str, dict[str, int]] = {}
        self._hub, self._agent = PageServer(self._hub_page), PageServer(lambda: b"zmon_build_info 1\n")
        self._journal = Journal(room / "findings.jsonl")
        self._addresses = {name: f"127.0.0.1:{free_port(0)}" for name in ("prometheus", "alertmanager")}
        prometheus = prometheus_yaml(
            agents=[self._agent.address], hub=self._hub.address, alertmanager=self._addresses["alertmanager"],
            rules=[str(FOLDER / name) for name in RULES], dashboard="", docs="",
        )  # fmt: skip
        alertmanager = alertmanager_yaml(*(f"http://{self._receivers[name].address}/" for name in ("pager", "desk")))
        if quick:
            prometheus = quick_prometheus(prometheus, room / "rules", keep_firing="1500ms")
            alertmanager = quick_alertmanager(alertmanager)
        (room / "prometheus.yml").write_text(prometheus)
        (room / "alertmanager.yml").write_text(alertmanager)
        self._commands = {
            "prometheus": [
                find_program("prometheus"),
                f"--storage.tsdb.path={room}/history",
                "--rules.alert.resend-delay=5s",  # a minute by default; it only affects the duration of this test
            ],
            "alertmanager": [
                find_program("prometheus-alertmanager", "alertmanager"),
                f"--storage.path={room}/notified",
                "--cluster.listen-address=",
            ],
        }
        for name in ("alertmanager", "prometheus"):
            self.start(name)

    def _hub_page(self) -> bytes:
        return metrics.hub_page(metrics.HubPage(findings=self._journal.published(), last_pass_time=time.time()))

    def open_finding(self, job_id: str, **changes: Any) -> Finding:
        """Open or update a finding about a job in the hub."""
        finding = build.finding(id=f"{job_id}_{changes.get('detector', 'stall')}", job_id=job_id, **changes)
        self._journal.open_or_update(finding, time.time())
        return finding

    def resolve(self, finding: Finding) -> None:
        """Let the hub resolve the finding, as if it had not detected it for a while."""
        self._journal.resolve(finding.job_id, finding.detector, 0.0)
        self._journal.resolve(finding.job_id, finding.detector, time.time())

    def start(self, name: str) -> None:
        """Start Prometheus, Alertmanager or the hub, and wait until it answers."""
        if name == "hub":
            self._journal = Journal(self._room / "findings.jsonl")
            self._hub.shut = False
            return
        options = [f"--config.file={self._room}/{name}.yml", f"--web.listen-address={self._addresses[name]}"]
        with (self._room / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen([*self._commands[name], *options], stdout=log, stderr=log)
        assert eventually(lambda: self._ready(name), 20), (self._room / f"{name}.log").read_text()

    def kill(self, name: str) -> None:
        """Kill Prometheus or Alertmanager with SIGKILL, or shut the hub."""
        if name == "hub":
            self._hub.shut = True
            return
        self._running[name].send_signal(signal.SIGKILL)
        self._running[name].wait(timeout=10)

    def mark(self, moment: str) -> None:
        """Remember which notifications have arrived until now."""
        self._marks[moment] = {name: len(server.posted) for name, server in self._receivers.items()}

    def notifications(self, receiver: str, job_id: str | None, until: str | None = None) -> list[str]:
        """Return the status and alerts of each notification to a receiver, until a mark or now.

        They are about one job, or about the monitor itself if `job_id` is None.
        """
        posted = self._receivers[receiver].posted
        return [
            f"{call['status']}: {', '.join(sorted(alert['labels']['alertname'] for alert in call['alerts']))}"
            for call in posted[: self._marks[until][receiver] if until else None]
            if call["groupLabels"].get("job_id") == job_id
        ]

    def wait_for(self, receiver: str, *job_ids: str) -> None:
        """Wait until a receiver has a notification about each job."""
        for job_id in job_ids:
            assert eventually(lambda job_id=job_id: self.notifications(receiver, job_id), SETTLED_SECONDS), job_id

    def close(self) -> None:
        """End all servers and processes."""
        for name in self._running:
            self.kill(name)
        for server in (self._hub, self._agent, *self._receivers.values()):
            server.shutdown()

    def _ready(self, name: str) -> bool:
        try:
            return requests.get(f"http://{self._addresses[name]}/-/ready", timeout=2).ok
        except requests.RequestException:
            return False


@pytest.fixture(scope="module")
def alertings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Alerting]]:
    """Two stacks of Alerting, with short and with shipped intervals, after the same faults in both."""
    with contextlib.ExitStack() as stack:
        started = {}
        for intervals in INTERVALS:
            started[intervals] = Alerting(tmp_path_factory.mktemp(intervals), quick=intervals == "quick")
            stack.callback(started[intervals].close)
        with ThreadPoolExecutor() as pool:  # they only wait
            list(pool.map(run_scenario, started.values()))
        yield started


@pytest.fixture(params=INTERVALS)
def notifications(request: pytest.FixtureRequest, alertings: dict[str, Alerting]) -> Callable[..., list[str]]:
    """Return a function that returns notifications by receiver, job and mark."""
    return alertings[request.param].notifications


def run_scenario(alerting: Alerting) -> None:
    """Open and resolve faults while hub, Prometheus and Alertmanager are killed and restarted."""
    alerting.open_finding("refined", cause="unknown", ranks=(), hosts=())
    watched, over = alerting.open_finding("watched"), alerting.open_finding("over")
    alerting.open_finding("restarting", cause="rank_exited", severity="warning")
    alerting.open_finding("apart", detector="divergence", cause="divergence", ranks=(), hosts=())
    alerting.open_finding("slow", detector="straggler", cause="compute_straggler", severity="warning")
    alerting.open_finding("uneven", detector="imbalance", cause="lookup_skew", severity="info")
    alerting.wait_for("pager", "refined", "watched", "over", "apart")
    alerting.wait_for("desk", "restarting", "slow")
    alerting.open_finding("refined", cause="rank_frozen")
    for detector, cause in (("straggler", "unknown"), ("hardware", "link_down"), ("coverage", "agent_unreachable")):
        alerting.open_finding("refined", detector=detector, cause=cause, severity="warning")
    exited = alerting.open_finding("restarting", cause="rank_exited", severity="critical")
    alerting.resolve(over)
    alerting.wait_for("pager", "restarting")
    alerting.kill("hub")
    time.sleep(alerting.settled_seconds)
    alerting.mark(BACK)
    alerting.start("hub")
    alerting.kill("prometheus")
    alerting.start("prometheus")
    time.sleep(alerting.settled_seconds / 2)
    alerting.resolve(watched)
    alerting.resolve(exited)
    time.sleep(alerting.settled_seconds)
    alerting.mark(KILLED)
    alerting.kill("alertmanager")
    alerting.start("alertmanager")
    time.sleep(alerting.settled_seconds)


@pytest.mark.parametrize(
    ("receiver", "job_id", "until", "expected"),
    [
        pytest.param("pager", "refined", KILLED, [STALLED], id="an updated diagnosis pages once"),
        pytest.param("desk", "refined", None, [], id="warnings beside a stall are not sent"),
        pytest.param("pager", "watched", BACK, [STALLED], id="restarts neither resolve nor repeat a page"),
        pytest.param("pager", "watched", None, [STALLED, RESOLVED], id="a page is resolved after restarts"),
        pytest.param("desk", "restarting", None, [f"firing: {WARNED}", f"resolved: {WARNED}"], id="death is a warning"),
        pytest.param("pager", "restarting", None, [STALLED, RESOLVED], id="a death that stalls the job pages"),
        pytest.param("pager", "over", BACK, [STALLED, RESOLVED], id="a stall is over before the outage of the hub"),
        pytest.param("pager", "over", None, [STALLED, RESOLVED], id="a resolved stall is not repeated"),
        pytest.param("pager", "apart", KILLED, ["firing: ZmonFindingCritical"], id="divergence pages"),
        pytest.param("pager", "slow", None, [], id="a straggler does not page"),
        pytest.param("desk", "slow", KILLED, [f"firing: {WARNED}"], id="a straggler notifies the desk"),
        pytest.param("pager", "uneven", None, [], id="info does not page"),
        pytest.param("desk", "uneven", None, [], id="info does not notify the desk"),
        pytest.param("pager", "refined", None, [STALLED, STALLED], id="a restarted Alertmanager sends the page again"),
    ],
)
def test_receiver_gets_only_these_notifications_about_a_job(notifications, receiver, job_id, until, expected):
    assert notifications(receiver, job_id, until) == expected
