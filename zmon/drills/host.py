"""One host: `zmon up` as people start it, with a webhook, and jobs under torchrun beside it.

Its GPUs are a stub of NVML that a drill tells what to answer; where that cannot be built there are none.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from zmon.drills import asking, jobs
from zmon.drills.launched import Launched
from zmon.drills.nvml import Script, library
from zmon.drills.stage import JobSpec, Page, PartName
from zmon.drills.webhook import Webhook
from zmon.errors import PartFailed
from zmon.records import Finding, JobView, RankState
from zmon.stack import find_program

HOST = "drill-host"
READY_SECONDS = 120.0
LAST_CALL_SECONDS = 10  # that launchers wait for each other
WORDS = {"agent": "zmon agent", "hub": "zmon hub", "prometheus": "prometheus.yml", "alertmanager": "alertmanager.yml"}
HEALTH = {"agent": "/healthz", "hub": "/healthz", "prometheus": "/-/ready", "alertmanager": "/-/ready"}


class OneHost:
    """A standing stack on this machine, in a folder of its own."""

    name = "host"

    def __init__(self, folder: Path) -> None:
        """Start it and wait until it works. Raises PartFailed."""
        find_program("prometheus")
        find_program("prometheus-alertmanager", "alertmanager")
        self.folder = folder
        self._webhook = Webhook()
        self._jobs: list[Launched] = []
        try:
            self.gpus: Script | None = Script(folder / "gpus", library(folder / "nvml"))
            self.gpus.tell(("driver", "cards", 8))
        except PartFailed:
            self.gpus = None
        self.environment = {
            **os.environ,
            "ZMON_DATA_DIR": str(folder / "data"),
            "ZMON_BOX_DIR": str(folder / "boxes"),
            "ZMON_HOST": HOST,
        }
        ready = folder / "ready.json"
        with (folder / "up.log").open("wb") as log:
            self._up = subprocess.Popen(
                [sys.executable, "-m", "zmon", "up", "--ready-file", ready, "--webhook", self._webhook.url],
                env=self.environment | (self.gpus.environment if self.gpus else {}),
                stdout=log,
                stderr=log,
                start_new_session=True,  # a Ctrl-C at the terminal is for the drill, which ends it in order
            )
        deadline = time.monotonic() + READY_SECONDS
        while not ready.exists():
            if self._up.poll() is not None or time.monotonic() > deadline:
                self.close()
                last = (folder / "up.log").read_text(errors="replace").strip().splitlines()[-1:]
                raise PartFailed("the stack for the drills did not start", " ".join(last), f"see {folder}/up.log")
            time.sleep(0.1)
        self.urls: dict[str, str] = json.loads(ready.read_text())

    def start(self, spec: JobSpec) -> Launched:
        """A torchrun, or several that meet: then the job may go on with fewer."""
        folder = self.folder / "jobs" / spec.job_id
        folder.mkdir(parents=True)
        env, port = self.environment | jobs.environment(spec, folder), _free_port()
        if spec.launchers > 1:  # else ranks that meet again find addresses from before in the launchers' store
            env["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
        with (folder / "log").open("ab") as log:
            launchers = [
                subprocess.Popen(
                    jobs.command(spec, *_meeting(spec, number, port)), env=env, cwd=folder,
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                )
                for number in range(spec.launchers)
            ]  # fmt: skip
        self._jobs.append(Launched(spec, folder, launchers))
        return self._jobs[-1]

    def findings(self, job_id: str, active: bool = True) -> list[Finding]:
        """The hub's."""
        return asking.findings(self.urls["hub"], job_id, active)

    def job(self, job_id: str) -> JobView | None:
        """The hub's view."""
        return asking.job(self.urls["hub"], job_id)

    def ranks(self, job_id: str) -> dict[int, RankState]:
        """The agent's."""
        return asking.ranks([self.urls["agent"]], job_id)

    def pages(self) -> list[Page]:
        """What came by the webhook."""
        return self._webhook.pages()

    def query(self, promql: str) -> list[dict[str, object]]:
        """Prometheus' answer."""
        return asking.query(self.urls["prometheus"], promql)

    def part_pid(self, part: PartName, host: str | None = None) -> int:
        """The child of `zmon up` that runs this part. Raises PartFailed."""
        for process in psutil.Process(self._up.pid).children():
            try:
                if WORDS[part] in " ".join(process.cmdline()):
                    return process.pid
            except (psutil.NoSuchProcess, psutil.ZombieProcess):
                continue
        raise PartFailed(f"{part} does not run", "it died and was not started again", f"see {self.folder}/data/logs")

    def supervisor_pid(self) -> int:
        """`zmon up` itself."""
        return self._up.pid

    def answers(self, part: PartName) -> bool:
        """Its health check."""
        return asking.answers(self.urls[part] + HEALTH[part])

    def close(self) -> None:
        """End the jobs, then the stack."""
        for job in self._jobs:
            job.end()
        if self._up.poll() is None:
            self._up.send_signal(signal.SIGCONT)
            self._up.send_signal(signal.SIGINT)
            try:
                self._up.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self._up.kill()  # its parts end with it: they asked the kernel for that
                self._up.wait()
        self._webhook.close()


@contextmanager
def one_host(folder: Path) -> Iterator[OneHost]:
    """The stage, for as long as it is needed."""
    stage = OneHost(folder)
    try:
        yield stage
    finally:
        stage.close()


def _meeting(spec: JobSpec, launcher: int, port: int) -> list[str]:
    """How ranks meet; where there are several launchers the first keeps the store, so that the others may leave."""
    if spec.launchers == 1:
        return ["--standalone", f"--nproc-per-node={spec.ranks}"]
    return [
        f"--nnodes=1:{spec.launchers}",
        f"--nproc-per-node={spec.ranks // spec.launchers}",
        "--rdzv-backend=c10d",
        f"--rdzv-endpoint=127.0.0.1:{port}",
        f"--rdzv-id={spec.job_id}",
        f"--rdzv-conf=is_host={int(launcher == 0)},last_call_timeout={LAST_CALL_SECONDS}",
    ]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
