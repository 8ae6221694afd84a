"""Four hosts and those who watch them, supervised: an agent on each host; hub, Prometheus and Alertmanager here.

As `supervised`, and the hosts are taken away last. `python -m zmon.drills.cluster FOLDER WEBHOOK`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from zmon.drills.clock import Clock, library
from zmon.drills.network import Host, make_hosts, remove_hosts
from zmon.drills.supervised import Supervised, stand, told_to_stop
from zmon.errors import PartFailed, ZmonError
from zmon.stack.part import Part

NAMES = ("node-0", "node-1", "node-2", "node-3")
AGENT_PORT = 9780


class Cluster(Supervised):
    """The same parts, with an agent on each host instead of one here."""

    def __init__(
        self, folder: Path, webhook: str, hosts: Mapping[str, Host], environments: Mapping[str, dict[str, str]]
    ) -> None:
        self._hosts, self._environments = hosts, environments
        super().__init__(folder, webhook)

    def _agents(self) -> list[Part]:
        return [self._agent(host) for host in self._hosts.values()]

    def _agent(self, host: Host) -> Part:
        url, data = agent_url(host), self._config.data_dir
        command = [
            *(sys.executable, "-m", "zmon", "agent"),
            *("--bind", host.address, "--public", "--port", str(AGENT_PORT)),
            *("--box-dir", str(box_dir(data.parent, host.name))),
            *("--host", host.name),
            *("--data-dir", str(data / host.name)),
        ]
        log = data / "logs" / f"agent-{host.name}.log"
        told = self._environments.get(host.name, {})
        return Part(f"agent-{host.name}", host.inside(command), url, f"{url}/healthz", log, told)


def agent_url(host: Host) -> str:
    """Where it is asked."""
    return f"http://{host.address}:{AGENT_PORT}"


def box_dir(folder: Path, host: str) -> Path:
    """A host's own."""
    return folder / "hosts" / host / "boxes"


def clocks(folder: Path, hosts: Mapping[str, Host]) -> dict[str, Clock]:
    """One for each host; none where they cannot be built."""
    try:
        built = library(folder)
    except PartFailed:
        return {}
    return {name: Clock(folder / "hosts" / name / "clock", built) for name in hosts}


async def run(folder: Path, webhook: str) -> None:
    """Four hosts."""
    stop = told_to_stop()
    hosts = make_hosts(NAMES)
    try:
        for name in hosts:
            box_dir(folder, name).mkdir(parents=True)
        told = {name: clock.environment for name, clock in clocks(folder, hosts).items()}
        cluster = Cluster(folder, webhook, hosts, told)
        await stand(cluster, folder, stop, hosts=[asdict(host) for host in hosts.values()], clocks=told)
    finally:
        remove_hosts(hosts.values())


if __name__ == "__main__":
    try:
        asyncio.run(run(Path(sys.argv[1]), sys.argv[2]))
    except ZmonError as error:
        sys.exit(str(error))
