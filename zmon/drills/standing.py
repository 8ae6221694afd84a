"""What all stages have: a stack that stands beside us, supervised, and a webhook behind it; both are there to be asked.

The supervisor is a process of its own that ends when its stdin is closed, so it ends when we do, however that comes.
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

from zmon.drills import asking, jobs
from zmon.drills.launched import Launched
from zmon.drills.stage import PartName, ReceivedPage
from zmon.drills.webhook import Webhook
from zmon.errors import PartFailed
from zmon.schema.finding import Finding
from zmon.schema.job import JobView
from zmon.schema.rank import RankState
from zmon.stack import find_program

READY_SECONDS = 120.0
END_SECONDS = 20.0
WORDS = {"hub": "zmon hub", "prometheus": "prometheus.yml", "alertmanager": "alertmanager.yml"}  # in their commands
HEALTH = {"agent": "/healthz", "hub": "/healthz", "prometheus": "/-/ready", "alertmanager": "/-/ready"}
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_libc = ctypes.CDLL(None)


class Standing:
    """A stack in a folder of its own. `host` is the one meant where a part runs on each."""

    def __init__(self, folder: Path, module: str, host: str, environment: dict[str, str]) -> None:
        """Start the module that supervises it, and wait until it works. Raises PartFailed."""
        find_program("prometheus")
        find_program("prometheus-alertmanager", "alertmanager")
        self.folder = folder
        self._host = host
        self._webhook = Webhook()
        self._jobs: list[Launched] = []
        with (folder / "stack.log").open("wb") as log:
            self._supervisor = subprocess.Popen(
                [sys.executable, "-m", module, folder, self._webhook.url],
                env=jobs.inherited() | environment,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,  # a Ctrl-C at the terminal is for the drill, which ends it in order
                preexec_fn=_wake_when_we_end,
            )
        try:
            self.told = self._await_ready()
        except BaseException:
            self.close()
            raise
        self.urls: dict[str, str] = self.told["urls"]

    def _await_ready(self) -> dict[str, Any]:
        ready, log = self.folder / "ready.json", self.folder / "stack.log"
        deadline = time.monotonic() + READY_SECONDS
        while not ready.exists():
            if self._supervisor.poll() is not None or time.monotonic() > deadline:
                last = log.read_text(errors="replace").strip().splitlines()[-1:]
                raise PartFailed("the stack for the drills did not start", " ".join(last), f"see {log}")
            time.sleep(0.1)
        told: dict[str, Any] = json.loads(ready.read_text())
        return told

    def findings(self, job_id: str | None, active: bool = True) -> list[Finding]:
        """The hub's."""
        return asking.findings(self.urls["hub"], job_id, active)

    def job(self, job_id: str) -> JobView | None:
        """The hub's view."""
        return asking.job(self.urls["hub"], job_id)

    def ranks(self, job_id: str) -> dict[int, RankState]:
        """Of all agents."""
        return asking.ranks(self._agents(), job_id)

    def pages(self) -> list[ReceivedPage]:
        """What came by the webhook."""
        return self._webhook.pages()

    def query(self, promql: str) -> list[dict[str, object]]:
        """Prometheus' answer."""
        return asking.query(self.urls["prometheus"], promql)

    def part(self, part: PartName, host: str | None = None) -> psutil.Process:
        """The child of the supervisor that runs this part. Raises PartFailed."""
        words = f"--host {host or self._host} " if part == "agent" else WORDS[part]
        with contextlib.suppress(psutil.NoSuchProcess):
            for process in self.supervisor().children():
                with contextlib.suppress(psutil.NoSuchProcess):
                    if words in " ".join(process.cmdline()):
                        return process
        raise PartFailed(f"{part} does not run", "it died and was not started again", f"see {self.folder}/data/logs")

    def supervisor(self) -> psutil.Process:
        """The process that started the parts. Raises PartFailed where it has died."""
        if self._supervisor.poll() is not None:
            raise PartFailed("the stack for the drills has ended", "it was killed", f"see {self.folder}/stack.log")
        return psutil.Process(self._supervisor.pid)

    def answers(self, part: PartName) -> bool:
        """Its health check; of agents, everyone's."""
        urls = self._agents() if part == "agent" else [self.urls[part]]
        return all(asking.answers(url + HEALTH[part]) for url in urls)

    def close(self) -> None:
        """End the jobs, then the stack; each of them also where another does not end as it should."""
        with contextlib.ExitStack() as last:
            last.callback(self._webhook.close)
            last.callback(self._end_supervisor)
            for job in self._jobs:
                last.callback(job.end)

    def _end_supervisor(self) -> None:
        assert self._supervisor.stdin is not None
        self._supervisor.stdin.close()
        self._supervisor.send_signal(signal.SIGCONT)  # it may have been stopped
        try:
            self._supervisor.wait(timeout=END_SECONDS)
        except subprocess.TimeoutExpired:
            self._supervisor.kill()  # its parts end with it: they asked the kernel for that
            self._supervisor.wait()

    def _agents(self) -> Iterable[str]:
        """Where they are asked."""
        return [self.urls["agent"]]


def _wake_when_we_end() -> None:
    """A drill that stops the supervisor may be killed before it lets it go on (prctl(2))."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGCONT, 0, 0, 0)
