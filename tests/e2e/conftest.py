"""One standing stack for all end-to-end tests: real Prometheus, Alertmanager, agent, hub, dashboard, and a webhook.

One job is trained on it for as long as the tests last, and heals: a test that stops a rank of it has it go on. A test
that needs a job to start or to end starts one of its own. What each second of a job went to is checked once a module.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import requests
from playwright.sync_api import Browser, Page, sync_playwright

from tests.e2e.browser import CHROMIUM, FLAGS, opened
from tests.e2e.parts import part
from tests.e2e.standing import (
    HOST,
    Job,
    Jobs,
    Life,
    Running,
    Webhook,
    all_is_accounted_for,
    read_ready_file,
    wait_for,
)
from tests.places import REPOSITORY
from tests.stack.quick import quick_alertmanager, quick_prometheus

HERE = Path(__file__).parent
PAUSE_SECONDS = "0.1"  # in each step of a job that is only looked at
TRAINER = ("-m", "trainer", "--preset", "demo")
UNHURRIED = (str(HERE / "unhurried.py"), PAUSE_SECONDS, "--preset", "demo")


@pytest.fixture(scope="package")
def webhook() -> Iterator[Webhook]:
    """A receiver for Alertmanager."""
    hook = Webhook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            hook.calls.append((time.time(), json.loads(body)))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hook.port = server.server_address[1]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield hook
    server.shutdown()


@pytest.fixture(scope="package")
def stack(tmp_path_factory: pytest.TempPathFactory, webhook: Webhook) -> Iterator[Running]:
    """`zmon up`, ready; Prometheus and Alertmanager look more often than they do for people."""
    room = tmp_path_factory.mktemp("stack")
    env = {
        **os.environ,
        "ZMON_DATA_DIR": str(room / "data"),
        "ZMON_BOX_DIR": str(room / "boxes"),
        "ZMON_HOST": HOST,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(REPOSITORY),
    }
    command = [sys.executable, "-m", "zmon", "up", "--ready-file", str(room / "ready.json")]
    command += ["--webhook", f"http://127.0.0.1:{webhook.port}/"]
    with (room / "up.log").open("wb") as log:
        process = subprocess.Popen(command, env=env, stdout=log, stderr=log)
    try:
        wait_for(
            f"the stack is up, see {room}/up.log",
            lambda: (room / "ready.json").exists() or process.poll() is not None,
            90,
        )
        assert process.poll() is None, (room / "up.log").read_text()
        running = Running(read_ready_file(room / "ready.json"), env, webhook)
        hasten(running, room)
        yield running
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(timeout=10)


def hasten(stack: Running, room: Path) -> None:
    """Give Prometheus and Alertmanager short intervals; they keep them when they are started again."""
    prometheus, alertmanager = room / "data/prometheus.yml", room / "data/alertmanager.yml"
    prometheus.write_text(quick_prometheus(prometheus.read_text(), room / "rules"))
    alertmanager.write_text(quick_alertmanager(alertmanager.read_text()))
    for word in ("--storage.tsdb.path", "alertmanager.yml"):
        part(stack, word).send_signal(signal.SIGHUP)
    rules = f"{stack.urls['prometheus']}/api/v1/status/config"
    group = f"{stack.urls['alertmanager']}/api/v2/status"
    wait_for("the quick rules", lambda: str(room / "rules") in requests.get(rules, timeout=5).text, 10)
    wait_for("the quick groups", lambda: "group_interval: 1s" in requests.get(group, timeout=5).text, 10)


@pytest.fixture(scope="module")
def lives(stack: Running) -> Iterator[list[Life]]:
    """Of all jobs that end in a module; what their seconds went to is checked after the last of them."""
    noted: list[Life] = []
    yield noted
    for life in noted:
        all_is_accounted_for(stack, life)


@pytest.fixture
def start_job(
    stack: Running, lives: list[Life], tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Callable[..., Job]]:
    """Start the bundled trainer, or a script, under torchrun; whatever is left of it is ended after the test."""
    jobs = Jobs(stack, tmp_path, lives)
    name = request.node.name.replace("[", "-").replace("]", "")[:50]

    def start(*arguments: str, ranks: int = 4, launcher: tuple[str, ...] = ()) -> Job:
        return jobs.start(f"{name}-{len(jobs.started)}", arguments or TRAINER, ranks, launcher)

    yield start
    jobs.end()


@pytest.fixture(scope="package")
def healing_jobs(stack: Running, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jobs]:
    """The job that heals; another one where a test that failed ended it."""
    lives: list[Life] = []
    jobs = Jobs(stack, tmp_path_factory.mktemp("healing"), lives)
    yield jobs
    jobs.end()
    for life in lives:
        all_is_accounted_for(stack, life)


def healed(stack: Running, jobs: Jobs) -> Job:
    """The bundled trainer on four ranks, past its first steps, with nothing against it."""
    if not jobs.started or jobs.started[-1].process.poll() is not None:
        stack.await_steps(jobs.start(f"healing-{len(jobs.started)}", UNHURRIED, 4))
    job = jobs.started[-1]
    wait_for(f"nothing stands against {job.job_id}", lambda: not stack.findings(job.job_id), 30)
    return job


@pytest.fixture
def training(stack: Running, healing_jobs: Jobs) -> Job:
    """The job that heals, healthy; shared, so have every rank of it go on."""
    return healed(stack, healing_jobs)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """One Chromium for all who look."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A tab on a laptop."""
    with opened(browser) as tab:
        yield tab
