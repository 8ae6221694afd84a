"""Query a running stack, and start and end the jobs that it watches."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import requests

from lab.stage.webhook import Webhook
from tests.stack.quick import quick_alertmanager, quick_prometheus
from zmon.stack import password

HOST = "node-a"
SETTLED_SECONDS = 7.0  # this long after the end of a job, the hub has all data about its last steps
DETECTION_SECONDS = 0.5  # the agent looks for dead ranks ten times a second, but shares the machine with other tests
ALERT_SECONDS = 2.0  # a finding that Prometheus has scraped is an alert by then, even on a busy machine
CLOCK_SECONDS = 0.2  # a finding may appear to be this much older than its fault


def wait_for(what: str, probe: Callable[[], Any], seconds: float) -> Any:
    """Wait for the first true answer of `probe` and return it; fail with `what` after so many seconds."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        answer = probe()
        if answer:
            return answer
        time.sleep(0.05)
    raise AssertionError(f"not within {seconds:g} s: {what}")


@dataclass
class RunningStack:
    """A running stack: its URLs, its environment, and its webhook."""

    urls: dict[str, str]
    env: dict[str, str]
    webhook: Webhook

    @property
    def login(self) -> tuple[str, str]:
        """The user and the password of Alertmanager."""
        return password.USER, (Path(self.env["ZMON_DATA_DIR"]) / password.FILE).read_text()

    def alerts(self, job_id: str, status: str, since: float = 0.0) -> list[dict[str, Any]]:
        """Return the alerts about one job with this status, firing or resolved, that arrived since this time."""
        alerts = (alert for arrival, call in self.webhook.calls if arrival >= since for alert in call["alerts"])
        return [alert for alert in alerts if alert["labels"].get("job_id") == job_id and alert["status"] == status]

    def findings(self, job_id: str, active: bool = True, since: float = 0.0) -> list[dict[str, Any]]:
        """Return the findings about one job that were detected since this unix time.

        On a machine with few cores the steps of every job vary, which zmon reports and which is no fault.
        """
        query = {"job_id": job_id, "active": int(active)}
        findings = requests.get(f"{self.urls['hub']}/api/v1/findings", params=query, timeout=5).json()["findings"]
        faults = [finding for finding in findings if finding["cause"] != "compute_jitter"]
        return [finding for finding in faults if finding["detected"] >= since - CLOCK_SECONDS]

    def job(self, job_id: str) -> dict[str, Any] | None:
        """Return the hub's view of one job, or None."""
        jobs = requests.get(f"{self.urls['hub']}/api/v1/jobs", timeout=5).json()["jobs"]
        return next((j for j in jobs if j["job_id"] == job_id), None)

    def ranks(self, job_id: str) -> dict[int, dict[str, Any]]:
        """Return the states of one job's ranks as the agent reports them, by rank."""
        query = {"job_id": job_id}
        answer = requests.get(f"{self.urls['agent']}/api/v1/snapshot", params=query, timeout=5).json()
        return {r["rank"]: r for r in answer["ranks"]}

    def query(self, promql: str) -> list[dict[str, Any]]:
        """Return the result vector of a PromQL query."""
        answer = requests.get(f"{self.urls['prometheus']}/api/v1/query", params={"query": promql}, timeout=5)
        return answer.json()["data"]["result"]

    def zmon(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the command line against this stack."""
        command = [sys.executable, "-m", "zmon", *arguments]
        return subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=30, check=False)

    def await_steps(self, job: Job, steps: int = 20) -> None:
        """Wait until a job has done more than so many steps."""
        wait_for(
            f"the job trains, see {job.log}", lambda: (view := self.job(job.job_id)) and (view["step"] or 0) > steps, 60
        )

    def await_silence(self, job: Job) -> None:
        """Wait until no alert about a job fires, nor is about to, so that the next fault causes a new page."""
        firing = f'ALERTS{{alertstate="firing", job_id="{job.job_id}"}}'

        def is_silent() -> bool:
            if not self.query(firing):
                time.sleep(ALERT_SECONDS)
                return not self.query(firing)
            return False

        wait_for(f"no alert about {job.job_id} fires", is_silent, 60)

    @contextlib.contextmanager
    def stopped(self, job: Job, rank: int) -> Iterator[float]:
        """Stop one rank of a job by SIGSTOP, yield the unix time of the stop, and continue the rank afterwards."""
        pid = self.ranks(job.job_id)[rank]["pid"]
        os.kill(pid, signal.SIGSTOP)
        try:
            yield time.time()
        finally:
            os.kill(pid, signal.SIGCONT)


@dataclass
class Job:
    """A training job under torchrun."""

    job_id: str
    process: subprocess.Popen[bytes]
    log: Path

    @classmethod
    def start(cls, job_id: str, directory: Path, command: Sequence[str], env: dict[str, str]) -> Job:
        """Run a command with this environment in a session of its own, as a shell does, so that it can have Ctrl-C."""
        log = directory / f"{job_id}.log"
        with log.open("wb") as out:
            return cls(job_id, subprocess.Popen(command, env=env, stdout=out, stderr=out, start_new_session=True), log)

    def signal(self, number: int) -> None:
        """Send a signal to the launcher, as the owner of the job would."""
        if self.process.poll() is None:
            self.process.send_signal(number)

    def kill(self) -> None:
        """Kill the processes of the job that are left; its launcher is stopped before, so that it starts no others."""
        children = []
        if self.process.poll() is None:
            launcher = psutil.Process(self.process.pid)
            launcher.suspend()
            children = launcher.children(recursive=True)
        for process in children:
            with contextlib.suppress(psutil.NoSuchProcess):  # it may die by itself meanwhile
                process.kill()
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(timeout=10)


@dataclass
class Lifetime:
    """The lifetime of a job, measured from outside: unix seconds just before and just after it was ended."""

    job_id: str
    lead: dict[str, Any]
    before: float
    after: float


class Jobs:
    """The jobs that a test starts on a stack, and their lifetimes."""

    def __init__(self, stack: RunningStack, directory: Path, lifetimes: list[Lifetime]) -> None:
        self._stack, self._directory, self._lifetimes = stack, directory, lifetimes
        self.started: list[Job] = []

    def start(self, job_id: str, arguments: Sequence[str], ranks: int, launcher: Sequence[str] = ()) -> Job:
        """Start a script, or a module with -m, under torchrun."""
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
        env = {**self._stack.env, "ZMON_JOB_ID": job_id}
        self.started.append(Job.start(job_id, self._directory, [*command, *launcher, *arguments], env))
        return self.started[-1]

    def end(self) -> None:
        """End the jobs that still run, and record the lifetimes of all."""
        lifetimes = []
        for job in self.started:
            with contextlib.suppress(requests.RequestException):  # a test that failed may have left the agent down
                lifetimes.append((job, self._stack.ranks(job.job_id).get(0), time.time()))
            job.kill()
        after = time.time()
        self._lifetimes += [
            Lifetime(job.job_id, lead, before, after) for job, lead, before in lifetimes if lead is not None
        ]
        self.started = []


def assert_categories_sum_to_lifetime(stack: RunningStack, lifetime: Lifetime) -> None:
    """Check that the time categories of a job sum to its measured lifetime."""
    time.sleep(max(0.0, lifetime.after + SETTLED_SECONDS - time.time()))
    job_id = lifetime.job_id
    view = wait_for(f"{job_id} is known", lambda: stack.job(job_id), 10)
    total, start = sum(view["time"].values()), lifetime.lead["start"]
    least, most = lifetime.before - start, lifetime.after - start
    bounds = f"{job_id}: {total:.3f} s of {least:.3f} to {most:.3f} s"
    if lifetime.lead["attempt"] == 0:  # otherwise the job began before this launch
        assert total <= 1.001 * most + DETECTION_SECONDS, bounds
    if lifetime.lead["alive"] and lifetime.lead["activity"] != "done":
        assert total >= 0.999 * least, bounds


def process_with(stack: RunningStack, word: str) -> psutil.Process:
    """Return the process of the part whose command line contains `word`."""
    data = stack.env["ZMON_DATA_DIR"]
    boxes = stack.env["ZMON_BOX_DIR"]
    for process in psutil.process_iter():
        try:
            line = " ".join(process.cmdline())
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
        if word in line and (data in line or boxes in line):
            return process
    raise AssertionError(f"no process of the stack has {word!r} in its command line")


def is_up(url: str, login: tuple[str, str] | None = None) -> bool:
    """Return True if a GET of this URL is answered with status 200."""
    try:
        return requests.get(url, timeout=2, auth=login).status_code == 200
    except requests.RequestException:
        return False


def shorten_intervals(stack: RunningStack, directory: Path) -> None:
    """Give Prometheus and Alertmanager short intervals, which they also have after a restart."""
    prometheus, alertmanager = directory / "data/prometheus.yml", directory / "data/alertmanager.yml"
    prometheus.write_text(quick_prometheus(prometheus.read_text(), directory / "rules"))
    alertmanager.write_text(quick_alertmanager(alertmanager.read_text()))
    for word in ("--storage.tsdb.path", "alertmanager.yml"):
        process_with(stack, word).send_signal(signal.SIGHUP)
    rules = f"{stack.urls['prometheus']}/api/v1/status/config"
    group = f"{stack.urls['alertmanager']}/api/v2/status"
    wait_for("the quick rules", lambda: str(directory / "rules") in requests.get(rules, timeout=5).text, 10)
    wait_for(
        "the quick groups", lambda: "group_interval: 1s" in requests.get(group, timeout=5, auth=stack.login).text, 10
    )
