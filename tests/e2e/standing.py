"""A running stack, the jobs that it watches, and how a test talks to both."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import requests

HOST = "node-a"
SETTLED_SECONDS = 7.0  # after its end, when all that will be told of its last steps is
SEEN_SECONDS = 0.5  # a death is seen when the agent looks next, ten times a second; here others work beside it
CLOCK_SECONDS = 0.2  # by which a finding may seem older than its fault


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

    def alerts(self, job_id: str, status: str, since: float = 0.0) -> list[dict[str, Any]]:
        """Alerts about one job that came since then, by status: firing or resolved."""
        every = (alert for time_, call in self.calls if time_ >= since for alert in call["alerts"])
        return [a for a in every if a["labels"].get("job_id") == job_id and a["status"] == status]


@dataclass
class Running:
    """A running stack and how to talk to it."""

    urls: dict[str, str]
    env: dict[str, str]
    webhook: Webhook

    def findings(self, job_id: str, active: bool = True, since: float = 0.0) -> list[dict[str, Any]]:
        """Findings about one job, of faults since then."""
        query = {"job_id": job_id, "active": int(active)}
        every = requests.get(f"{self.urls['hub']}/api/v1/findings", params=query, timeout=5).json()["findings"]
        return [finding for finding in every if finding["detected"] >= since - CLOCK_SECONDS]

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

    def await_steps(self, job: Job, steps: int = 20) -> None:
        """Wait until a job has done more steps than that."""
        wait_for(
            f"the job trains, see {job.log}",
            lambda: (view := self.job(job.job_id)) and (view["step"] or 0) > steps,
            60,
        )

    def await_silence(self, job: Job) -> None:
        """Wait until no alert about a job fires any more: only then is the next fault a new page."""
        firing = f'ALERTS{{alertstate="firing", job_id="{job.job_id}"}}'
        wait_for(f"no alert about {job.job_id} fires", lambda: not self.query(firing), 60)

    @contextlib.contextmanager
    def stopped(self, job: Job, rank: int) -> Iterator[float]:
        """One rank of a job is stopped by SIGSTOP, and goes on afterwards; the unix time of the fault."""
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

    def signal(self, number: int) -> None:
        """Signal the launcher as its owner would."""
        if self.process.poll() is None:
            self.process.send_signal(number)

    def kill(self) -> None:
        """End whatever is left of it."""
        children = psutil.Process(self.process.pid).children(recursive=True) if self.process.poll() is None else []
        for process in children:
            with contextlib.suppress(psutil.NoSuchProcess):  # a job that dies by itself is quicker
                process.kill()
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(timeout=10)


@dataclass
class Life:
    """How long a job lived, as seen from outside: unix seconds before and after it was ended."""

    job_id: str
    lead: dict[str, Any]
    before: float
    after: float


class Jobs:
    """Jobs on a stack, from their start to their end; and how long each lived."""

    def __init__(self, stack: Running, room: Path, lives: list[Life]) -> None:
        self._stack, self._room, self._lives = stack, room, lives
        self.started: list[Job] = []

    def start(self, job_id: str, arguments: Sequence[str], ranks: int, launcher: Sequence[str] = ()) -> Job:
        """Start a script, or a module with -m, under torchrun."""
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
        log = self._room / f"{job_id}.log"
        with log.open("wb") as out:
            env = {**self._stack.env, "ZMON_JOB_ID": job_id}
            process = subprocess.Popen(
                [*command, *launcher, *arguments], env=env, stdout=out, stderr=out, start_new_session=True
            )
        self.started.append(Job(job_id, process, log))
        return self.started[-1]

    def end(self) -> None:
        """End what still runs, and note how long each lived."""
        lives = []
        for job in self.started:
            with contextlib.suppress(requests.RequestException):  # a test that failed may have left the agent down
                lives.append((job, self._stack.ranks(job.job_id).get(0), time.time()))
            job.kill()
        after = time.time()
        self._lives += [Life(job.job_id, lead, before, after) for job, lead, before in lives if lead is not None]
        self.started = []


def all_is_accounted_for(stack: Running, life: Life) -> None:
    """What each second of a job went to is told once, whatever a test did to it."""
    time.sleep(max(0.0, life.after + SETTLED_SECONDS - time.time()))
    view = wait_for(f"{life.job_id} is known", lambda: stack.job(life.job_id), 10)
    told, start = sum(view["time"].values()), life.lead["start"]
    print(f"{life.job_id}: {told:.3f} s of {life.before - start:.3f} to {life.after - start:.3f} s")
    if life.lead["attempt"] == 0:  # else it began before this start
        assert told <= 1.001 * (life.after - start) + SEEN_SECONDS, life.job_id
    if life.lead["alive"] and life.lead["activity"] != "done":
        assert told >= 0.999 * (life.before - start), life.job_id


def read_ready_file(file: Path) -> dict[str, str]:
    """Where the parts of a stack answer."""
    urls: dict[str, str] = json.loads(file.read_text())
    return urls
