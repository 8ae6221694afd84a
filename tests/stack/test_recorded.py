"""Tests of all rules in a real Prometheus beside other exporters: the rules load, and record each value once."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from tests.http_server import FakeServer
from tests.places import REPOSITORY
from tests.ports import free_port
from tests.stack.quick import quick_prometheus
from zmon.stack import RULES, find_program
from zmon.stack.config import prometheus_yaml

pytestmark = [pytest.mark.e2e, pytest.mark.slow]  # promtool tests the same rules in every run

FAST_SECONDS = 60  # groups with longer intervals are not awaited
FOLDER = REPOSITORY / "dashboards/rules"
DCGM = 'gpu="0",UUID="GPU-a",pci_bus_id="00000000:1B:00.0",device="nvidia0",modelName="NVIDIA H100 80GB HBM3"'
PAGE = f"""
zmon_gpu_temperature_celsius{{host="n1",gpu="0",uuid="GPU-a"}} 60
DCGM_FI_DEV_GPU_TEMP{{{DCGM},Hostname="n1"}} 61
DCGM_FI_DEV_GPU_UTIL{{{DCGM},Hostname="n1",pod="train-0",namespace="ml"}} 50
DCGM_FI_DEV_GPU_UTIL{{{DCGM},hostname="n1"}} 50
DCGM_FI_DEV_XID_ERRORS{{{DCGM},Hostname="n1",err_code="79",err_msg="GPU has fallen off the bus"}} 79
DCGM_FI_DEV_FB_USED{{{DCGM},GPU_I_PROFILE="1g.10gb",GPU_I_ID="7",Hostname="n1"}} 3
node_uname_info{{nodename="n1",machine="x86_64",release="6.1.0",sysname="Linux"}} 1
node_network_receive_bytes_total{{device="eth0"}} 1000
node_infiniband_port_data_received_bytes_total{{device="mlx5_0",port="1"}} 2000
node_cpu_seconds_total{{cpu="0",mode="idle"}} 10
node_cpu_seconds_total{{cpu="1",mode="idle"}} 20
"""
RECORDED = {
    ("zmon:gpu_temperature:celsius", "n1", "0", None): 60,
    ("zmon:gpu_utilization:ratio", "n1", "0", None): 0.5,
    ("zmon:gpu_xid:seen", "n1", "0", None): 1,
    ("zmon:gpu_memory_used:bytes", "n1", "0:7", None): 3 * 2**20,
    ("zmon:nic_receive_bytes:total", "n1", None, "eth0"): 1000,
    ("zmon:nic_receive_bytes:total", "n1", None, "mlx5_0:1"): 2000,
    ("zmon:host_cpu_seconds:total", "n1", None, None): 30,
}


@pytest.fixture
def exporter() -> Iterator[str]:
    """The address of one page with the metrics of zmon, dcgm-exporter and node_exporter."""
    server = FakeServer(lambda *_: PAGE.encode())
    yield server.address
    server.close()


@pytest.fixture(params=[True, False], ids=["quick", "shipped"])
def prometheus(request: pytest.FixtureRequest, exporter: str, tmp_path: Path) -> Iterator[str]:
    """A Prometheus with the stack's configuration, whose agent and hub are the exporter: two jobs scrape it."""
    unused_address = f"127.0.0.1:{free_port(0)}"
    rules = [str(FOLDER / name) for name in RULES]
    config = prometheus_yaml(
        agents=[exporter], hub=exporter, alertmanager=unused_address, rules=rules, dashboard="http://d", docs="docs"
    )
    (tmp_path / "prometheus.yml").write_text(quick_prometheus(config, tmp_path) if request.param else config)
    address = f"127.0.0.1:{free_port(0)}"
    command = [find_program("prometheus"), f"--config.file={tmp_path / 'prometheus.yml'}"]
    command += [f"--storage.tsdb.path={tmp_path / 'data'}", f"--web.listen-address={address}"]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    yield f"http://{address}/api/v1"
    process.terminate()
    process.wait(timeout=10)


def query_api(prometheus: str, path: str, **params: str) -> Any:
    """Return the answer of Prometheus; None while it starts."""
    try:
        return requests.get(f"{prometheus}/{path}", params=params, timeout=5).json()["data"]
    except (requests.RequestException, ValueError):
        return None


def fast_groups(prometheus: str) -> list[dict[str, Any]]:
    """Return the loaded rule groups, except those that are evaluated every few minutes."""
    groups = (query_api(prometheus, "rules") or {"groups": []})["groups"]
    return [group for group in groups if group["interval"] < FAST_SECONDS]


def all_rules(prometheus: str) -> list[dict[str, Any]]:
    """Return the rules of the fast groups, with their health."""
    return [rule for group in fast_groups(prometheus) for rule in group["rules"]]


def all_evaluated(prometheus: str) -> bool:
    """Return True if both jobs were scraped and every rule was evaluated."""
    up = query_api(prometheus, "query", query="up == 1")
    rules = all_rules(prometheus)
    return bool(up and len(up["result"]) == 2 and rules and all(rule["health"] != "unknown" for rule in rules))


def test_rules_load_beside_exporters_and_record_each_value_once(prometheus: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    deadline = time.monotonic() + 60
    while not all_evaluated(prometheus) or recorded(prometheus) != sorted(RECORDED.items(), key=str):
        assert time.monotonic() < deadline, (recorded(prometheus), log.read_text())
        time.sleep(0.2)
    slowest = max(group["interval"] for group in fast_groups(prometheus))
    time.sleep(slowest + 0.5)  # until every rule was evaluated again, now with the series of both jobs

    rules = all_rules(prometheus)
    assert len(rules) > len(RECORDED)
    assert [(rule["name"], rule.get("lastError")) for rule in rules if rule["health"] != "ok"] == []
    lines = [line for line in log.read_text().splitlines() if 'component="rule manager"' in line]
    assert [line for line in lines if "level=info" not in line] == []

    assert recorded(prometheus) == sorted(RECORDED.items(), key=str)


def recorded(prometheus: str) -> list[tuple[tuple[str | None, ...], float]]:
    """Return the series that hardware.yaml has recorded: name, host, GPU and device, with the value."""
    groups = yaml.safe_load((FOLDER / "hardware.yaml").read_text())["groups"]
    names = {rule["record"] for group in groups for rule in group["rules"]}
    series = query_api(prometheus, "query", query='{__name__=~"zmon:(gpu|nic|host)_.+"}')["result"]
    keys = ("__name__", "host", "gpu", "device")
    values = [(tuple(sample["metric"].get(key) for key in keys), float(sample["value"][1])) for sample in series]
    return sorted([value for value in values if value[0][0] in names], key=str)
