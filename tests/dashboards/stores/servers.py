"""Starts Prometheus and VictoriaMetrics on free ports of loopback, with samples or with targets to scrape."""

import contextlib
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import requests
import yaml

from tests.boxes import eventually
from tests.ports import free_port

START_SECONDS = 60.0
# As docs/deploy/long-term.md sets them: no waiting for late samples, no answers from a cache, and a series without a
# new sample for five minutes is gone, as in Prometheus.
VICTORIA = ("-search.latencyOffset=0s", "-search.disableCache", "-search.maxStalenessInterval=5m")


@contextlib.contextmanager
def started(log: Path, url: str, *command: str) -> Iterator[subprocess.Popen]:
    """Start a server, wait until it is healthy, and end it with the block."""
    with log.open("ab") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)

    def has_begun() -> bool:
        assert process.poll() is None, log.read_text()[-2000:]
        with contextlib.suppress(requests.RequestException):
            return requests.get(url, timeout=5).ok
        return False

    try:
        assert eventually(has_begun, START_SECONDS), f"{command[0]} is not healthy: {log.read_text()[-2000:]}"
        yield process
    finally:
        process.kill()
        process.wait(20)


@contextlib.contextmanager
def prometheus(folder: Path, config: Mapping[str, object] | None = None) -> Iterator[tuple[str, subprocess.Popen]]:
    """Start Prometheus with this configuration and the blocks that are in `folder`; yield its URL and process."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "prometheus.yml"
    port = free_port()
    file.write_text(yaml.safe_dump(dict(config or {})))
    url = f"http://127.0.0.1:{port}"
    with started(
        folder / "log", f"{url}/-/ready", "prometheus", f"--config.file={file}", "--log.level=warn",
        f"--storage.tsdb.path={folder / 'data'}", "--storage.tsdb.retention.time=100y",
        f"--web.listen-address=127.0.0.1:{port}", "--web.enable-remote-write-receiver",
    ) as process:  # fmt: skip
        yield url, process


@contextlib.contextmanager
def victoria(folder: Path, *flags: str) -> Iterator[str]:
    """Start VictoriaMetrics and yield its URL."""
    folder.mkdir(parents=True)
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with started(
        folder / "log", f"{url}/health", "victoria-metrics", f"-storageDataPath={folder / 'data'}",
        f"-httpListenAddr=127.0.0.1:{port}", "-retentionPeriod=100y", "-loggerLevel=WARN", *(flags or VICTORIA),
    ):  # fmt: skip
        yield url
