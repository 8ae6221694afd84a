"""Run a stack with four hosts: an agent on each of them; hub, Prometheus and Alertmanager on this machine.

It works as `supervised` does, and removes the hosts at the end. Usage:
`python -m lab.stage.cluster DIR WEBHOOK [POLICY]`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from lab.libraries.clock import Clock, library
from lab.stage.network import Host, make_hosts, remove_hosts
from lab.stage.supervised import Supervised, arguments, run_until, stop_event
from zmon.errors import PartFailed, ZmonError
from zmon.stack.part import Part
from zmon.web.addresses import AGENT_PORT

NAMES = ("node-0", "node-1", "node-2", "node-3")


class Cluster(Supervised):
    """The parts of `Supervised`, with an agent on each host instead of one on this machine."""

    def __init__(
        self,
        folder: Path,
        webhook: str,
        hosts: Mapping[str, Host],
        environments: Mapping[str, dict[str, str]],
        policy: Path | None,
    ) -> None:
        self._hosts, self._environments = hosts, environments
        super().__init__(folder, webhook, policy)

    def _agents(self) -> list[Part]:
        return [self._agent(host) for host in self._hosts.values()]

    @property
    def _agent_urls(self) -> list[str]:
        return list(map(agent_url, self._hosts.values()))

    def _agent(self, host: Host) -> Part:
        url = agent_url(host)
        data = self._config.data_dir
        command = [
            *(sys.executable, "-m", "zmon", "agent"),
            *("--bind", host.address, "--insecure-public", "--port", str(AGENT_PORT)),
            *("--box-dir", str(box_dir(data.parent, host.name))),
            *("--host", host.name),
            *("--data-dir", str(data / host.name)),
            *([] if self._config.act_file is None else ["--allow-actions"]),
        ]
        log = data / "logs" / f"agent-{host.name}.log"
        environment = self._environments.get(host.name, {})
        return Part(f"agent-{host.name}", host.inside(command), url, f"{url}/healthz", log, environment)


def agent_url(host: Host) -> str:
    """Return the URL of a host's agent."""
    return f"http://{host.address}:{AGENT_PORT}"


def box_dir(folder: Path, host: str) -> Path:
    """Return the box directory of a host."""
    return folder / "hosts" / host / "boxes"


def clocks(folder: Path, hosts: Mapping[str, Host]) -> dict[str, Clock]:
    """Return a clock for each host, by name; empty if the library cannot be compiled."""
    try:
        compiled = library(folder)
    except PartFailed:
        return {}
    return {name: Clock(folder / "hosts" / name / "clock", compiled) for name in hosts}


async def run(folder: Path, webhook: str, policy: Path | None = None, kind: type[Cluster] = Cluster) -> None:
    """Run the stack with four hosts until it is stopped. `kind`: how its parts are started."""
    stop = stop_event()
    hosts = make_hosts(NAMES)
    try:
        for name in hosts:
            box_dir(folder, name).mkdir(parents=True)
        environments = {name: clock.environment for name, clock in clocks(folder, hosts).items()}
        cluster = kind(folder, webhook, hosts, environments, policy)
        await run_until(stop, cluster, folder, hosts=[asdict(host) for host in hosts.values()], clocks=environments)
    finally:
        remove_hosts(hosts.values())


if __name__ == "__main__":
    try:
        asyncio.run(run(*arguments(sys.argv[1:])))
    except ZmonError as error:
        sys.exit(str(error))
