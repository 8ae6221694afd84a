"""Four hosts as a site would secure them: agents run as an ordinary user with capabilities, and serve TLS.

Hub and Prometheus show certificates to the agents, and find the agents in one file of targets. Usage:
`python -m tests.lab.stage.secured_cluster DIR WEBHOOK`, as lab.stage.cluster.
"""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from lab.stage import PartName
from lab.stage.cluster import Cluster, box_dir, run
from lab.stage.hosts import FourHosts
from lab.stage.network import Host
from lab.stage.supervised import arguments
from tests.web.certificates import Certificates
from zmon.errors import ZmonError
from zmon.schema.api import SnapshotRequest, endpoints
from zmon.schema.rank import RankState
from zmon.stack.part import Part
from zmon.web import client
from zmon.web.addresses import AGENT_PORT
from zmon.web.http_client import read_http_config, session

AGENT_UID = 23456
CAPABILITIES = ("dac_read_search", "sys_ptrace", "syslog", "dac_override")
HUB, PROMETHEUS = "hub.drill", "prometheus.drill"  # names in the certificates of clients
ROLES = [{"client_san": HUB, "roles": ["read", "evidence"]}, {"client_san": PROMETHEUS, "roles": ["metrics"]}]


class SecuredPart(Part):
    """An agent that serves TLS. The health check shows no certificate, and does not verify that of the agent."""

    async def is_healthy(self, session: aiohttp.ClientSession, timeout: float = 5.0) -> bool:
        """Return True if the agent says that it is ready."""
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as trusting:
            return await super().is_healthy(trusting, timeout)


class SecuredCluster(Cluster):
    """The parts of `Cluster` with TLS between hub and agents, and agents that do not run as root."""

    def __init__(self, folder: Path, webhook: str, hosts: Mapping[str, Host], *others: Any) -> None:
        self._tls = folder / "tls"
        self._certify(hosts)
        super().__init__(folder, webhook, hosts, *others)

    def _certify(self, hosts: Mapping[str, Host]) -> None:
        """Write a certificate for each agent by its address, one for the hub, and one for Prometheus."""
        self._tls.mkdir(mode=0o755)
        issuer = Certificates(self._tls)
        for name, identity in ((HUB, HUB), (PROMETHEUS, PROMETHEUS), *((h.name, h.address) for h in hosts.values())):
            issuer.issue(name, identity)
        for host in hosts:
            server = {"cert_file": f"{host}.pem", "key_file": f"{host}.key", "client_ca_file": "ca.pem"}
            server["client_auth_type"] = "VerifyClientCertIfGiven"
            (self._tls / f"{host}.yaml").write_text(yaml.safe_dump({"tls_server_config": server, "zmon_roles": ROLES}))
            os.chown(self._tls / f"{host}.key", AGENT_UID, AGENT_UID)
        for name in (HUB, PROMETHEUS):
            tls = {"ca_file": "ca.pem", "cert_file": f"{name}.pem", "key_file": f"{name}.key"}
            (self._tls / f"{name}.yaml").write_text(yaml.safe_dump({"tls_config": tls}))
        targets = [f"{host.address}:{AGENT_PORT}" for host in hosts.values()]
        sd = [{"targets": targets, "labels": {"__scheme__": "https"}}]
        (self._tls / "agents.json").write_text(json.dumps(sd))

    def _agent(self, host: Host) -> Part:
        data = self._config.data_dir
        data_dir = box_dir(data.parent, host.name).with_name("data")  # not in `data`, which is root's alone
        data_dir.mkdir()
        os.chown(data_dir, AGENT_UID, AGENT_UID)
        flags = ",".join(("-all", *(f"+{name}" for name in CAPABILITIES)))
        command = [
            *("setpriv", f"--reuid={AGENT_UID}", f"--regid={AGENT_UID}", "--clear-groups", f"--inh-caps={flags}"),
            *(f"--ambient-caps={flags}", f"--bounding-set={flags}", "--no-new-privs"),
            *(sys.executable, "-m", "zmon", "agent", "--bind", host.address, "--port", str(AGENT_PORT)),
            *("--web.config.file", str(self._tls / f"{host.name}.yaml")),
            *("--box-dir", str(box_dir(data.parent, host.name)), "--host", host.name, "--data-dir", str(data_dir)),
        ]
        url = f"https://{host.address}:{AGENT_PORT}"
        log = data / "logs" / f"agent-{host.name}.log"
        return SecuredPart(f"agent-{host.name}", host.inside(command), url, f"{url}/readyz", log)

    def _make_parts(self) -> list[Part]:
        parts = super()._make_parts()
        (hub,) = [part for part in parts if part.name == "hub"]
        command = list(hub.command)
        command[command.index("--agents") + 1] = f"file:{self._tls / 'agents.json'}"
        hub.command = [*command, "--http-config", str(self._tls / f"{HUB}.yaml")]
        path = self._config.data_dir / "prometheus.yml"
        config = yaml.safe_load(path.read_text())
        (agents,) = [scrape for scrape in config["scrape_configs"] if scrape["job_name"] == "zmon-agent"]
        del agents["static_configs"]
        agents |= {"scheme": "https", "file_sd_configs": [{"files": [str(self._tls / "agents.json")]}]}
        files = {"ca_file": "ca.pem", "cert_file": f"{PROMETHEUS}.pem", "key_file": f"{PROMETHEUS}.key"}
        agents["tls_config"] = {key: str(self._tls / file) for key, file in files.items()}
        path.write_text(yaml.safe_dump(config))
        return parts


class SecuredHosts(FourHosts):
    """The stage with these hosts. It asks the agents as their hub does."""

    module = "tests.lab.stage.secured_cluster"

    def ranks(self, job_id: str) -> dict[int, RankState]:
        """Return the states of one job's ranks, from all agents."""
        return asyncio.run(self._ask(job_id))

    def is_healthy(self, part: PartName) -> bool:
        """Return True if a part answers its health check; the agents are healthy if the hub can ask them."""
        return super().is_healthy(part) if part != "agent" else asyncio.run(self._agents_answer())

    async def _ask(self, job_id: str) -> dict[int, RankState]:
        config = read_http_config(self.folder / "tls" / f"{HUB}.yaml", "agents").agents
        states: dict[int, RankState] = {}
        async with session(config) as asking:
            for url in self._agents():
                report = await client.ask(asking, url, endpoints.SNAPSHOT, SnapshotRequest(job_id=job_id), 5.0)
                states |= {rank.rank: rank for rank in report.ranks}
        return states

    async def _agents_answer(self) -> bool:
        try:
            await self._ask("none")
        except ZmonError:
            return False
        return True

    def _agents(self) -> Iterable[str]:
        return [f"https://{host.address}:{AGENT_PORT}" for host in self.hosts.values()]


if __name__ == "__main__":
    try:
        asyncio.run(run(*arguments(sys.argv[1:]), SecuredCluster))
    except ZmonError as error:
        sys.exit(str(error))
