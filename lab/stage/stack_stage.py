"""Start the stack of a stage in its own process, with a webhook behind it, and query both.

The process supervises the parts. It ends when its stdin is closed, and therefore also when this process ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psutil

from lab import jobs
from lab.stage import PartName, ReceivedPage, Shown, client
from lab.stage.launched import Launched
from lab.stage.published import published
from lab.stage.webhook import Webhook
from zmon.act_stops import ALL, reset
from zmon.agent.acts.ledger import FILE as LEDGER
from zmon.errors import PartFailed
from zmon.hub.acts.guards import STORM_SECONDS
from zmon.schema.act import Intent
from zmon.schema.finding import Finding
from zmon.schema.job import JobView
from zmon.schema.rank import RankState
from zmon.stack import find_program, password

READY_SECONDS = 120.0  # for all parts to be healthy, on a machine with much else to do
END_SECONDS = 20.0
APART_SECONDS = STORM_SECONDS / 2  # from an act to the next job, which needs some more seconds until its fault
# Words of its command line that identify a part. An agent is identified by its host.
COMMAND_WORDS = {"hub": "zmon hub", "prometheus": "prometheus.yml", "alertmanager": "alertmanager.yml"}
HEALTH_PATHS = {"agent": "/healthz", "hub": "/healthz", "prometheus": "/-/ready", "alertmanager": "/-/ready"}
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_libc = ctypes.CDLL(None)


class StackStage:
    """A running stack in its own directory. `host` is the default host of a part that runs on every host."""

    witnesses: tuple[PartName, ...] = ("hub", "prometheus", "alertmanager")

    def __init__(
        self, folder: Path, module: str, host: str, environment: dict[str, str], policy: Path | None = None
    ) -> None:
        """Start the module that supervises the stack, and wait until all parts are healthy. Raises PartFailed."""
        find_program("prometheus")
        find_program("prometheus-alertmanager", "alertmanager")
        self.folder = folder
        self._host = host
        self.policy = policy
        self._webhook = Webhook()
        self._jobs: list[Launched] = []
        with (folder / "stack.log").open("wb") as log:
            self._supervisor = subprocess.Popen(
                [sys.executable, "-m", module, folder, self._webhook.url, *([policy] if policy else [])],
                env=jobs.inherited_environment() | environment,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C ends the drill, which then ends the stack in order
                preexec_fn=_continue_when_parent_ends,
            )
        try:
            self.ready = self._await_ready()
        except BaseException:
            self.close()
            raise
        self.urls: dict[str, str] = self.ready["urls"]

    def _await_ready(self) -> dict[str, Any]:
        """Wait until the supervisor has written ready.json; return its content. Raises PartFailed."""
        file = self.folder / "ready.json"
        log = self.folder / "stack.log"
        deadline = time.monotonic() + READY_SECONDS
        while not file.exists():
            if self._supervisor.poll() is not None or time.monotonic() > deadline:
                last_line = log.read_text(errors="replace").strip().splitlines()[-1:]
                raise PartFailed("the stack for the drills did not start", " ".join(last_line), f"see {log}")
            time.sleep(0.1)
        ready: dict[str, Any] = json.loads(file.read_text())
        return ready

    def findings(self, job_id: str | None, active: bool = True) -> list[Finding]:
        """Return the hub's findings about one job, or any, newest first; empty while the hub does not answer."""
        return client.findings(self.urls["hub"], job_id, active)

    def published(self, job_id: str) -> tuple[Shown, ...]:
        """Return every state in which a finding about one job was published, oldest first."""
        return published(self.folder / "data" / "findings.jsonl", job_id)

    def intents(self) -> tuple[Intent, ...] | None:
        """Return every intent of the hub, newest first; None if it has no policy or does not answer."""
        return client.intents(self.urls["hub"]) if self.policy else None

    def forget_acts(self) -> None:
        """Forget the acts so far: an agent permits four in an hour, and a hub acts on at most two jobs in a minute."""
        if intents := self.intents():
            time.sleep(max(0.0, intents[0].time + APART_SECONDS - time.time()))
        data = self.folder / "data"
        ledgers = [*data.rglob(LEDGER)]
        for ledger in ledgers:
            ledger.unlink()
        for folder in (data, *(ledger.parent for ledger in ledgers)):
            reset(folder, ALL)  # the stop of all acts that a breaker has set; stops of single rules stay
        if ledgers:
            self._restart_agents()

    def _restart_agents(self) -> None:
        """Kill the agents, which the supervisor starts again, and wait until they answer."""
        for host in self._agent_hosts():
            agent = self.part("agent", host)
            agent.kill()
            agent.wait(END_SECONDS)
        deadline = time.monotonic() + READY_SECONDS
        while not self.is_healthy("agent") and time.monotonic() < deadline:
            time.sleep(0.1)

    def job(self, job_id: str) -> JobView | None:
        """Return the hub's view of one job, or None."""
        return client.job(self.urls["hub"], job_id)

    def ranks(self, job_id: str) -> dict[int, RankState]:
        """Return the states of one job's ranks, from all agents."""
        return client.ranks(self._agents(), job_id)

    def pages(self) -> list[ReceivedPage]:
        """Return everything that the webhook received, oldest first."""
        return self._webhook.pages()

    def query(self, promql: str) -> list[dict[str, object]]:
        """Return the result vector of a PromQL query; empty while Prometheus does not answer."""
        return client.query(self.urls["prometheus"], promql)

    def part(self, part: PartName, host: str | None = None) -> psutil.Process:
        """Return the supervisor's child that runs this part. Raises PartFailed if there is none."""
        words = f"--host {host or self._host} " if part == "agent" else COMMAND_WORDS[part]
        with contextlib.suppress(psutil.NoSuchProcess):
            for process in self.supervisor().children():
                with contextlib.suppress(psutil.NoSuchProcess):
                    if words in " ".join(process.cmdline()):
                        return process
        raise PartFailed(f"{part} does not run", "it died and was not started again", f"see {self.folder}/data/logs")

    def supervisor(self) -> psutil.Process:
        """Return the process that started the parts. Raises PartFailed if it has died."""
        if self._supervisor.poll() is not None:
            raise PartFailed("the stack for the drills has ended", "it was killed", f"see {self.folder}/stack.log")
        return psutil.Process(self._supervisor.pid)

    def is_healthy(self, part: PartName) -> bool:
        """Return True if a part answers its health check; `agent` means all agents."""
        urls = self._agents() if part == "agent" else [self.urls[part]]
        login = (password.USER, password.password(self.folder / "data")) if part == "alertmanager" else None
        return all(client.is_healthy(url + HEALTH_PATHS[part], login) for url in urls)

    def close(self) -> None:
        """End the jobs, then the stack. An error at one of them does not keep the others from being ended."""
        with contextlib.ExitStack() as cleanup:
            cleanup.callback(self._webhook.close)
            cleanup.callback(self._end_supervisor)
            for job in self._jobs:
                cleanup.callback(job.end)

    def _end_supervisor(self) -> None:
        assert self._supervisor.stdin is not None
        self._supervisor.stdin.close()
        self._supervisor.send_signal(signal.SIGCONT)  # it may have been stopped
        try:
            self._supervisor.wait(timeout=END_SECONDS)
        except subprocess.TimeoutExpired:
            self._supervisor.kill()  # the kernel then ends the parts through their parent-death signal
            self._supervisor.wait()

    def _agent_hosts(self) -> Iterable[str]:
        """Return the hosts that have an agent."""
        return [self._host]

    def _agents(self) -> Iterable[str]:
        """Return the URLs of the agents."""
        return [self.urls["agent"]]


def _continue_when_parent_ends() -> None:
    """Ask the kernel for SIGCONT when the parent dies, because it may have stopped this process (prctl(2))."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGCONT, 0, 0, 0)
