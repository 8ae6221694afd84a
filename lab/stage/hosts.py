"""The stage of four hosts: network namespaces on this machine, connected by one switch, each with its own agent.

A job has a torchrun on each host. Its ranks use only the data network; the hub asks the agents over a management
network. Needs root.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from lab import jobs
from lab.libraries.clock import Clock
from lab.stage import JobSpec, client
from lab.stage.cluster import NAMES, agent_url, box_dir
from lab.stage.launched import Launched, launch
from lab.stage.network import DATA, Host, check_possible, remove_leftovers
from lab.stage.stack_stage import StackStage
from zmon.schema.api import SnapshotRequest, endpoints

FIRST_PORT, NUM_PORTS = 29500, 400  # rendezvous ports. A port stays in use after its job, so each job has its own


class FourHosts(StackStage):
    """A running stack with four hosts, in its own directory."""

    name = "hosts"
    module = "lab.stage.cluster"  # it runs the stack

    def __init__(self, folder: Path, policy: Path | None = None) -> None:
        """Start the stack and wait until it is healthy. Raises PartFailed, or UsageError without root."""
        check_possible()
        super().__init__(folder, self.module, NAMES[0], {}, policy)
        self.hosts = {fields["name"]: Host(**fields) for fields in self.ready["hosts"]}
        self.clocks = {
            name: Clock(Path(clock["DRILL_CLOCK"]), Path(clock["LD_PRELOAD"]))
            for name, clock in self.ready["clocks"].items()
        }

    def start(self, spec: JobSpec) -> Launched:
        """Start a job with one torchrun on each host; with fewer ranks than hosts it uses fewer hosts."""
        folder = self.folder / "jobs" / spec.job_id
        folder.mkdir(parents=True)
        hosts = list(self.hosts.values())[: spec.ranks]
        port = FIRST_PORT + len(self._jobs) % NUM_PORTS
        options = [f"--nnodes={len(hosts)}", f"--nproc-per-node={spec.ranks // len(hosts)}"]
        options += [f"--master-addr={hosts[0].data_address}", f"--master-port={port}"]
        launchers = (
            (host.inside(jobs.command(spec, *options, f"--node-rank={index}")), self._environment(spec, folder, host))
            for index, host in enumerate(hosts)
        )
        self._jobs.append(launch(spec, folder, launchers))
        return self._jobs[-1]

    def time_on(self, host: str) -> float | None:
        """Return the time of a host's clock in unix seconds, or None while its agent does not answer."""
        report = client.ask(agent_url(self.hosts[host]), endpoints.SNAPSHOT, SnapshotRequest())
        return None if report is None else report.time

    def close(self) -> None:
        """End the jobs, then the stack, then the hosts, which a killed supervisor leaves behind."""
        try:
            super().close()
        finally:
            remove_leftovers()

    def _environment(self, spec: JobSpec, folder: Path, host: Host) -> dict[str, str]:
        variables = jobs.environment(spec, folder, box_dir(self.folder, host.name)) | {"GLOO_SOCKET_IFNAME": DATA}
        return variables | (self.clocks[host.name].environment if host.name in self.clocks else {})

    def _agent_hosts(self) -> Iterable[str]:
        return self.hosts

    def _agents(self) -> Iterable[str]:
        return map(agent_url, self.hosts.values())
