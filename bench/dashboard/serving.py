"""Starts the servers of the benchmark on free ports. A server ends with its `with` block."""

from __future__ import annotations

import contextlib
import re
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import psutil
import yaml

from bench.dashboard import fake_hub, victoria
from bench.dashboard.history import VICTORIA
from bench.dashboard.scene import Scene
from bench.processes import child, daemon, spawn, wait_for_answer
from dashboards.rules.render import rendered
from lab.jobs.without_torchrun import free_port

_RULES_INTERVAL = "1y"  # longer than the benchmark, so that no rule is evaluated; the view `armed` lists loaded rules
_EMPTY_PAGE = "import streamlit as st\nst.html('<b data-testid=\"zmon-empty\">empty</b>')\n"
_QUERY_METRIC = (  # of Prometheus, or of VictoriaMetrics
    r"^(?:prometheus_http|vm)_request_duration_seconds_%s"
    r'\{(?:handler|path)="/api/v1/query(?:_range)?"\} (\S+)'
)
_QUERY_COUNTS = re.compile(_QUERY_METRIC % "count", re.M)
_QUERY_SECONDS = re.compile(_QUERY_METRIC % "sum", re.M)
_BLOCKS = ("--storage.tsdb.min-block-duration=2h", "--storage.tsdb.max-block-duration=2h")  # no compaction


@dataclass(frozen=True)
class Server:
    """A server with its URL and its process, whose CPU time is measured."""

    url: str
    process: psutil.Process


@contextlib.contextmanager
def store(name: str, scene: Scene, folder: Path) -> Iterator[Server]:
    """Start the store of the history in this folder: Prometheus or VictoriaMetrics."""
    if name == VICTORIA:
        with victoria.running(folder) as (url, process):
            yield Server(url, process)
    else:
        with _prometheus(scene, folder) as server:
            yield server


@contextlib.contextmanager
def _prometheus(scene: Scene, folder: Path) -> Iterator[Server]:
    """Start Prometheus on the blocks in this folder; it scrapes nothing."""
    rules = [str(_unevaluated(name, text, folder)) for name, text in rendered(scene.intervals).items()]
    config = folder / "prometheus.yml"
    config.write_text(yaml.safe_dump({"rule_files": rules}))
    port = free_port()
    command = (
        "prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder / 'blocks'}", *_BLOCKS,
        f"--web.listen-address=127.0.0.1:{port}", "--log.level=error",
    )  # fmt: skip
    with child(*command) as process:
        yield _ready(port, process, "/-/ready")


@contextlib.contextmanager
def hub(scene: Scene) -> Iterator[Server]:
    """Start the simulated hub."""
    port = free_port()
    with spawn(fake_hub.serve, scene, port) as process:
        yield _ready(port, process, "/healthz")


@contextlib.contextmanager
def dashboard(hub_url: str, prometheus_url: str) -> Iterator[Server]:
    """Start `zmon dashboard`, as users do."""
    port = free_port()
    with daemon("dashboard", "--port", str(port), "--hub", hub_url, "--prometheus", prometheus_url) as process:
        yield _ready(port, process, "/_stcore/health")


@contextlib.contextmanager
def empty_page(folder: Path) -> Iterator[Server]:
    """Start Streamlit with an empty page."""
    port = free_port()
    script = folder / "empty_page.py"
    script.write_text(_EMPTY_PAGE)
    flags = ("--server.address=127.0.0.1", "--server.headless=true", "--server.fileWatcherType=none",
             "--browser.gatherUsageStats=false", "--client.toolbarMode=minimal")  # fmt: skip
    with child(sys.executable, "-m", "streamlit", "run", str(script), f"--server.port={port}", *flags) as process:
        yield _ready(port, process, "/_stcore/health")


class QueryTotals(NamedTuple):
    """The PromQL queries that a store has answered since its start."""

    num_queries: float
    seconds: float  # of all of them


def query_totals(store: Server) -> QueryTotals:
    """Return the totals from the store's own metrics."""
    with urllib.request.urlopen(f"{store.url}/metrics", timeout=30) as answer:
        page = answer.read().decode()
    return QueryTotals(sum(map(float, _QUERY_COUNTS.findall(page))), sum(map(float, _QUERY_SECONDS.findall(page))))


def _unevaluated(name: str, text: str, folder: Path) -> Path:
    """Write a file of rules, with an interval so long that they are not evaluated during the benchmark."""
    rules = yaml.safe_load(text)
    for group in rules["groups"]:
        group["interval"] = _RULES_INTERVAL
    copy = folder / name
    copy.write_text(yaml.safe_dump(rules))
    return copy


def _ready(port: int, process: psutil.Process, path: str) -> Server:
    server = Server(f"http://127.0.0.1:{port}", process)
    wait_for_answer(server.url + path, process)
    return server
