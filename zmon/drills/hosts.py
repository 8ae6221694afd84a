"""Four hosts: network namespaces on this machine that reach each other over one switch, each with its own agent.

A job has a torchrun on each of them, and its ranks meet over the data network alone; agents are asked over another, as
on a management network. Needs root.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from zmon.drills import asking, jobs
from zmon.drills.clock import Clock
from zmon.drills.cluster import NAMES, agent_url, box_dir
from zmon.drills.launched import Launched, launch
from zmon.drills.network import DATA, Host, check_possible, remove_leftovers
from zmon.drills.stage import JobSpec
from zmon.drills.standing import Standing
from zmon.schema.api import SnapshotRequest, endpoints

FIRST_PORT, NUM_PORTS = 29500, 400  # where ranks meet; each job elsewhere, for a port is taken a while after its job


class FourHosts(Standing):
    """A standing stack with four hosts, in a folder of its own."""

    name = "hosts"

    def __init__(self, folder: Path) -> None:
        """Start it and wait until it works. Raises PartFailed, or UsageError without root."""
        check_possible()
        super().__init__(folder, "zmon.drills.cluster", NAMES[0], {})
        self.hosts = {each["name"]: Host(**each) for each in self.told["hosts"]}
        self.clocks = {
            name: Clock(Path(clock["DRILL_CLOCK"]), Path(clock["LD_PRELOAD"]))
            for name, clock in self.told["clocks"].items()
        }

    def start(self, spec: JobSpec) -> Launched:
        """A torchrun on each host, the first ranks on the first; fewer hosts where there are fewer ranks."""
        folder = self.folder / "jobs" / spec.job_id
        folder.mkdir(parents=True)
        hosts = list(self.hosts.values())[: spec.ranks]
        how = [f"--nnodes={len(hosts)}", f"--nproc-per-node={spec.ranks // len(hosts)}"]
        how += [f"--master-addr={hosts[0].data_address}", f"--master-port={FIRST_PORT + len(self._jobs) % NUM_PORTS}"]
        launchers = (
            (host.inside(jobs.command(spec, *how, f"--node-rank={index}")), self._environment(spec, folder, host))
            for index, host in enumerate(hosts)
        )
        self._jobs.append(launch(spec, folder, launchers))
        return self._jobs[-1]

    def time_on(self, host: str) -> float | None:
        """Unix seconds by that host's clock, as its agent says; None while that does not answer."""
        report = asking.ask(agent_url(self.hosts[host]), endpoints.SNAPSHOT, SnapshotRequest())
        return None if report is None else report.time

    def close(self) -> None:
        """End the jobs, then the stack and the hosts; a supervisor that had to be killed has left these."""
        try:
            super().close()
        finally:
            remove_leftovers()

    def _environment(self, spec: JobSpec, folder: Path, host: Host) -> dict[str, str]:
        own = jobs.environment(spec, folder, box_dir(self.folder, host.name)) | {"GLOO_SOCKET_IFNAME": DATA}
        return own | (self.clocks[host.name].environment if host.name in self.clocks else {})

    def _agents(self) -> Iterable[str]:
        return map(agent_url, self.hosts.values())
