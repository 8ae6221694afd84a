"""Agents and a hub as real HTTP servers with pages of zmon, and what docs/deploy/long-term.md puts around them.

Options come from the files in deploy/long-term; the test sets only addresses and directories.
"""

import contextlib
import hashlib
import shlex
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import requests
import yaml

from dashboards.intervals import Intervals
from dashboards.rules.render import rendered, sharded
from tests.build import agent_report, finding, rank_state
from tests.dashboards.stores.servers import started
from tests.http_server import FakeServer
from tests.metrics.scene import hub as hub_page
from tests.places import REPOSITORY
from tests.ports import free_port
from zmon.metrics import agent_page

RECIPE = REPOSITORY / "deploy/long-term"
EVERY = Intervals(1, 1)  # scrapes and evaluations come every second
STORES = {"day": 8428, "month": 8427, "year": 8426}  # the ports of the units
ROUTER = 8429


def shard_of(address: str) -> int:
    """Return the shard of an address, one of two, as the action hashmod of Prometheus computes it."""
    return int.from_bytes(hashlib.md5(address.encode()).digest()[8:]) % 2


def free_port_of(shard: int) -> int:
    """Return a free port whose address belongs to this shard."""
    while True:
        port = free_port()
        if shard_of(f"127.0.0.1:{port}") == shard:
            return port


class Pages:
    """Four agents, two for each shard, and a hub. `stalled` adds a finding that pages."""

    def __init__(self) -> None:
        self.stalled = False
        self._began = time.time()
        self.agents = [
            FakeServer(lambda *_, number=number: self._agent(number), free_port_of(shard))
            for number, shard in enumerate((0, 0, 1, 1))
        ]
        self.hub = FakeServer(lambda *_: self._hub())

    def _agent(self, number: int) -> bytes:
        steps = int(10 * (time.time() - self._began))
        rank = rank_state(number, host=f"node-{number}", steps=steps, step_seconds_total=steps / 10, world_size=4)
        return agent_page(agent_report(rank, host=f"node-{number}"), 1.0, 2)

    def _hub(self) -> bytes:
        findings = (
            [finding(detector="stall", severity="critical", ranks=(1,), hosts=("node-1",))] if self.stalled else []
        )
        return hub_page(findings, last_pass=time.time()).encode()

    def close(self) -> None:
        for daemon in (*self.agents, self.hub):
            daemon.close()


def scrape_configs(pages: Pages) -> list[dict]:
    """Return the scrape configurations of a shard for these pages."""
    configs = yaml.safe_load((RECIPE / "shard.yml").read_text())["scrape_configs"]
    for config in configs:
        config["scrape_interval"] = "1s"
        config.pop("file_sd_configs", None)
        is_hub = config["job_name"] == "zmon-hub"
        addresses = [pages.hub.address] if is_hub else [agent.address for agent in pages.agents]
        config["static_configs"] = [{"targets": addresses}]
    return configs


def shard_config(pages: Pages, shard: int, router: str, rules: Path) -> dict:
    """Return the configuration of a shard, from the one in the repository."""
    config = yaml.safe_load((RECIPE / "shard.yml").read_text())
    config["scrape_configs"] = scrape_configs(pages)
    config["global"]["external_labels"]["shard"] = str(shard)
    (keep,) = [rule for rule in config["scrape_configs"][0]["relabel_configs"] if rule["action"] == "keep"]
    keep["regex"] = str(shard)
    config["remote_write"][0]["url"] = f"{router}/api/v1/write"
    config["rule_files"] = [str(rules)]
    del config["alerting"]["alertmanagers"]
    return config


def rule_files(folder: Path, *, is_sharded: bool) -> dict[str, Path]:
    """Write all rules. Scrapes and evaluations come every second, and the wait for a dead shard is some seconds."""
    folder.mkdir()
    files = {}
    for name, text in (sharded if is_sharded else rendered)(EVERY).items():
        document = yaml.safe_load(text)
        for group in document["groups"]:
            group["interval"] = "1s"
            if group["name"] == "zmon-shards":
                for rule in group["rules"]:
                    rule["expr"] = rule["expr"].replace("[1m]", "[6s]")
                    rule |= {"for": "2s"} if "for" in rule else {}
        files[name] = folder / name
        files[name].write_text(yaml.safe_dump(document, width=10_000))
    if is_sharded:
        subprocess.run(["sed", "-i", "-f", RECIPE / "vmalert.sed", files["zmon.yaml"]], check=True)
    return files


def unit_command(unit: str, ports: dict[int, int], folder: Path, **env: str) -> list[str]:
    """Return the command of a unit, with other ports and directories."""
    text = (RECIPE / unit).read_text()
    (line,) = [line.partition("=")[2] for line in text.splitlines() if line.startswith("ExecStart=")]
    for name, value in env.items():
        line = line.replace(f"${name}", value)
    for old, new in ports.items():
        line = line.replace(f":{old}", f":{new}")
    line = line.replace("-httpListenAddr=:", "-httpListenAddr=127.0.0.1:")
    line = line.replace("/var/lib/", f"{folder}/").replace("/etc/zmon/", f"{RECIPE}/").replace("%i", "")
    return shlex.split(line)


@contextlib.contextmanager
def stores(folder: Path) -> Iterator[dict[str, str]]:
    """Start the three stores and the router; yield their URLs by name."""
    folder.mkdir()
    ports = {port: free_port() for port in (*STORES.values(), ROUTER)}
    urls = {name: f"http://127.0.0.1:{ports[port]}" for name, port in {**STORES, "router": ROUTER}.items()}
    with contextlib.ExitStack() as running:
        for name, port in STORES.items():
            arguments = f"-httpListenAddr=127.0.0.1:{port} -retentionPeriod=2d -loggerLevel=WARN"
            command = unit_command("zmon-store@.service", ports, folder / name, ARGS=arguments)
            running.enter_context(started(folder / f"{name}.log", f"{urls[name]}/health", *command))
        command = unit_command("zmon-router.service", ports, folder)
        running.enter_context(started(folder / "router.log", f"{urls['router']}/health", *command))
        yield urls


@contextlib.contextmanager
def vmalert(folder: Path, urls: dict[str, str], rules: dict[str, Path]) -> Iterator[str]:
    """Start vmalert with its rules; yield its URL. Nobody receives its notifications."""
    folder.mkdir()
    ports = {port: int(urls[name].rpartition(":")[2]) for name, port in {"day": 8428, "router": ROUTER}.items()}
    ports |= {8880: free_port(), 9093: 9}  # port 9 is "discard", at which nothing listens
    command = unit_command("zmon-vmalert.service", ports, folder)
    command = [part for part in command if not part.startswith("-rule=")] + [
        f"-rule={file}" for name, file in rules.items() if name != "shard.yaml"
    ]
    url = f"http://127.0.0.1:{ports[8880]}"
    with started(folder / "log", f"{url}/health", *command):
        yield url


def firing(url: str) -> set[str]:
    """Return the names of the alerts that fire now, by the API that Prometheus and vmalert share."""
    alerts = requests.get(f"{url}/api/v1/alerts", timeout=10).json()["data"]["alerts"] or ()  # vmalert: null for none
    return {alert["labels"].get("alertname") or alert["name"] for alert in alerts if alert["state"] == "firing"}


def query(url: str, promql: str) -> dict[tuple[tuple[str, str], ...], float]:
    """Return the values now, by labels."""
    answer = requests.get(f"{url}/api/v1/query", params={"query": promql}, timeout=10).json()
    assert answer["status"] == "success", answer
    return {tuple(sorted(result["metric"].items())): float(result["value"][1]) for result in answer["data"]["result"]}
