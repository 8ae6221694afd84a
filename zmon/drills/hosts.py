"""Four hosts: network namespaces on this machine that reach each other over one switch, each with its own agent.

A job has a torchrun on each of them, and its ranks meet over the data network alone; agents are asked over another, as
on a management network. Needs root.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from zmon.drills import asking, jobs
from zmon.drills.clock import Clock
from zmon.drills.cluster import agent_url, box_dir
from zmon.drills.host import HEALTH, READY_SECONDS, WORDS
from zmon.drills.launched import Launched
from zmon.drills.network import DATA, Host, check_possible
from zmon.drills.stage import JobSpec, Page, PartName
from zmon.drills.webhook import Webhook
from zmon.errors import PartFailed
from zmon.records import Finding, JobView, RankState
from zmon.stack import find_program

END_SECONDS = 20.0
FIRST_PORT, NUM_PORTS = 29500, 400  # where ranks meet; each job elsewhere, for a port is taken a while after its job


class FourHosts:
    """A standing stack with four hosts, in a folder of its own."""

    name = "hosts"

    def __init__(self, folder: Path) -> None:
        """Start it and wait until it works. Raises PartFailed, or UsageError without root."""
        check_possible()
        find_program("prometheus")
        find_program("prometheus-alertmanager", "alertmanager")
        self.folder = folder
        self._webhook = Webhook()
        self._jobs: list[Launched] = []
        with (folder / "cluster.log").open("wb") as log:
            self._cluster = subprocess.Popen(
                [sys.executable, "-m", "zmon.drills.cluster", folder, self._webhook.url],
                stdin=subprocess.PIPE,  # closed when we end, however that comes
                stdout=log,
                stderr=log,
                start_new_session=True,  # a Ctrl-C at the terminal is for the drill, which ends it in order
            )
        ready, deadline = folder / "ready.json", time.monotonic() + READY_SECONDS
        while not ready.exists():
            if self._cluster.poll() is not None or time.monotonic() > deadline:
                self.close()
                last = (folder / "cluster.log").read_text(errors="replace").strip().splitlines()[-1:]
                raise PartFailed("the hosts for the drills did not start", " ".join(last), f"see {folder}/cluster.log")
            time.sleep(0.1)
        told = json.loads(ready.read_text())
        self.urls: dict[str, str] = told["urls"]
        self.hosts = {each["name"]: Host(**each) for each in told["hosts"]}
        self.clocks = {
            name: Clock(Path(clock["DRILL_CLOCK"]), Path(clock["LD_PRELOAD"])) for name, clock in told["clocks"].items()
        }

    def start(self, spec: JobSpec) -> Launched:
        """A torchrun on each host, the first ranks on the first; fewer hosts where there are fewer ranks."""
        folder = self.folder / "jobs" / spec.job_id
        folder.mkdir(parents=True)
        hosts = list(self.hosts.values())[: spec.ranks]
        how = [f"--nnodes={len(hosts)}", f"--nproc-per-node={spec.ranks // len(hosts)}"]
        how += [f"--master-addr={hosts[0].data_address}", f"--master-port={FIRST_PORT + len(self._jobs) % NUM_PORTS}"]
        with (folder / "log").open("ab") as log:
            launchers = [
                subprocess.Popen(
                    host.inside(jobs.command(spec, *how, f"--node-rank={index}")),
                    env=os.environ | jobs.environment(spec, folder) | self._environment(host),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=folder,
                    start_new_session=True,
                )
                for index, host in enumerate(hosts)
            ]
        self._jobs.append(Launched(spec, folder, launchers))
        return self._jobs[-1]

    def _environment(self, host: Host) -> dict[str, str]:
        own = {"ZMON_BOX_DIR": str(box_dir(self.folder, host.name)), "GLOO_SOCKET_IFNAME": DATA}
        return own | (self.clocks[host.name].environment if host.name in self.clocks else {})

    def findings(self, job_id: str, active: bool = True) -> list[Finding]:
        """The hub's."""
        return asking.findings(self.urls["hub"], job_id, active)

    def job(self, job_id: str) -> JobView | None:
        """The hub's view."""
        return asking.job(self.urls["hub"], job_id)

    def ranks(self, job_id: str) -> dict[int, RankState]:
        """Of all agents."""
        return asking.ranks(map(agent_url, self.hosts.values()), job_id)

    def pages(self) -> list[Page]:
        """What came by the webhook."""
        return self._webhook.pages()

    def query(self, promql: str) -> list[dict[str, object]]:
        """Prometheus' answer."""
        return asking.query(self.urls["prometheus"], promql)

    def part_pid(self, part: PartName, host: str | None = None) -> int:
        """The child of the cluster's process that runs this part; an agent of the first host unless said otherwise."""
        words = WORDS[part]
        if part == "agent":
            words = f"--host {host or next(iter(self.hosts))} "
        for process in psutil.Process(self._cluster.pid).children():
            try:
                if words in " ".join(process.cmdline()):
                    return process.pid
            except (psutil.NoSuchProcess, psutil.ZombieProcess):
                continue
        raise PartFailed(f"{part} does not run", "it died and was not started again", f"see {self.folder}/data/logs")

    def supervisor_pid(self) -> int:
        """The cluster's own process."""
        return self._cluster.pid

    def answers(self, part: PartName) -> bool:
        """Its health check; of agents, everyone's."""
        urls = map(agent_url, self.hosts.values()) if part == "agent" else [self.urls[part]]
        return all(asking.answers(url + HEALTH[part]) for url in urls)

    def close(self) -> None:
        """End the jobs, then the stack and the hosts."""
        for job in self._jobs:
            job.end()
        if self._cluster.stdin is not None:
            self._cluster.stdin.close()
        try:
            self._cluster.wait(timeout=END_SECONDS)
        except subprocess.TimeoutExpired:
            self._cluster.kill()  # its parts end with it, and whoever makes hosts next removes these
            self._cluster.wait()
        self._webhook.close()


@contextmanager
def four_hosts(folder: Path) -> Iterator[FourHosts]:
    """The stage, for as long as it is needed."""
    stage = FourHosts(folder)
    try:
        yield stage
    finally:
        stage.close()
