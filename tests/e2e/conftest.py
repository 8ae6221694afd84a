"""One standing stack for all end-to-end tests: real Prometheus, Alertmanager, agent, hub, dashboard, and a webhook."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psutil
import pytest
import requests

from tests.places import REPOSITORY

HOST = "node-a"
SETTLED_SECONDS = 7.0  # after its end, when all that will be told of its last steps is
SEEN_SECONDS = 0.5  # a death is seen when the agent looks next, ten times a second; here others work beside it


def wait_for(what: str, probe: Callable[[], Any], seconds: float) -> Any:
    """The first true answer of `probe`; fails with `what` after so many seconds."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        answer = probe()
        if answer:
            return answer
        time.sleep(0.05)
    raise AssertionError(f"not within {seconds:g} s: {what}")


@dataclass
class Webhook:
    """What Alertmanager sent, with the time it came."""

    port: int = 0
    calls: list[tuple[float, dict[str, Any]]] = field(default_factory=list)

    def alerts(self, job_id: str, status: str) -> list[dict[str, Any]]:
        """Alerts about one job, by status: firing or resolved."""
        every = (alert for _, call in self.calls for alert in call["alerts"])
        return [a for a in every if a["labels"].get("job_id") == job_id and a["status"] == status]


@dataclass
class Running:
    """A running stack and how to talk to it."""

    urls: dict[str, str]
    env: dict[str, str]
    webhook: Webhook

    def findings(self, job_id: str, active: bool = True) -> list[dict[str, Any]]:
        """Findings about one job."""
        query = {"job_id": job_id, "active": int(active)}
        return requests.get(f"{self.urls['hub']}/api/v1/findings", params=query, timeout=5).json()["findings"]

    def job(self, job_id: str) -> dict[str, Any] | None:
        """The hub's view of one job."""
        jobs = requests.get(f"{self.urls['hub']}/api/v1/jobs", timeout=5).json()["jobs"]
        return next((j for j in jobs if j["job_id"] == job_id), None)

    def ranks(self, job_id: str) -> dict[int, dict[str, Any]]:
        """The agent's view of one job, by rank."""
        query = {"job_id": job_id}
        answer = requests.get(f"{self.urls['agent']}/api/v1/snapshot", params=query, timeout=5).json()
        return {r["rank"]: r for r in answer["ranks"]}

    def query(self, promql: str) -> list[dict[str, Any]]:
        """The result vector of a PromQL query."""
        answer = requests.get(f"{self.urls['prometheus']}/api/v1/query", params={"query": promql}, timeout=5)
        return answer.json()["data"]["result"]

    def zmon(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the command line against this stack."""
        command = [sys.executable, "-m", "zmon", *arguments]
        return subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=30, check=False)


@dataclass
class Job:
    """A training job under torchrun."""

    job_id: str
    process: subprocess.Popen[bytes]
    log: Path

    def end(self, number: int = signal.SIGTERM) -> int:
        """Signal the launcher as its owner would, and wait."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(timeout=20)


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
    """`zmon up`, ready."""
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
        yield Running(json.loads((room / "ready.json").read_text()), env, webhook)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(timeout=10)


@pytest.fixture
def start_job(stack: Running, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Callable[..., Job]]:
    """Start the bundled trainer, or a script, under torchrun; whatever is left of it is ended after the test."""
    started: list[Job] = []

    def start(*arguments: str, ranks: int = 4, job_id: str | None = None, launcher: tuple[str, ...] = ()) -> Job:
        job_id = job_id or f"{request.node.name.replace('[', '-').replace(']', '')[:50]}-{len(started)}"
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
        command += [*launcher, *(arguments or ("-m", "trainer", "--preset", "demo"))]
        log = tmp_path / f"{job_id}.log"
        with log.open("wb") as out:
            env = {**stack.env, "ZMON_JOB_ID": job_id}
            process = subprocess.Popen(command, env=env, stdout=out, stderr=out, start_new_session=True)
        started.append(Job(job_id, process, log))
        return started[-1]

    yield start
    lives = []
    for job in started:
        with contextlib.suppress(requests.RequestException):  # a test that failed may have left the agent down
            lives.append((job, stack.ranks(job.job_id).get(0), time.time()))
        children = psutil.Process(job.process.pid).children(recursive=True) if job.process.poll() is None else []
        for process in children:
            with contextlib.suppress(psutil.NoSuchProcess):  # a job that dies by itself is quicker
                process.kill()
        if job.process.poll() is None:
            job.process.kill()
            job.process.wait(timeout=10)
    after = time.time()
    for job, lead, before in lives:
        if lead is not None:
            _all_is_accounted_for(stack, job, lead, before, after)


def _all_is_accounted_for(stack: Running, job: Job, lead: dict[str, Any], before: float, after: float) -> None:
    """What each second of a job went to is told once, whatever the test did to it."""

    time.sleep(max(0.0, after + SETTLED_SECONDS - time.time()))
    view = wait_for(f"{job.job_id} is known", lambda: stack.job(job.job_id), 10)
    told = sum(view["time"].values())
    print(f"{job.job_id}: {told:.3f} s of {before - lead['start']:.3f} to {after - lead['start']:.3f} s")
    if lead["attempt"] == 0:  # else it began before this start
        assert told <= 1.001 * (after - lead["start"]) + SEEN_SECONDS
    if lead["alive"] and lead["activity"] != "done":
        assert told >= 0.999 * (before - lead["start"])


@pytest.fixture
def training(stack: Running, start_job: Callable[..., Job]) -> Job:
    """The bundled trainer on four ranks, past its first steps."""
    job = start_job()
    wait_for(f"the job trains, see {job.log}", lambda: (view := stack.job(job.job_id)) and (view["step"] or 0) > 20, 60)
    return job
