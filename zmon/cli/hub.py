"""`zmon hub`: line the ranks up, judge, publish findings."""

from __future__ import annotations

import gc
from pathlib import Path

import click

from zmon.cli.daemon import serve
from zmon.cli.options import AGENT_URL, PORT, bind_option, data_dir_option, public_option
from zmon.cli.thresholds import detectors_option
from zmon.detectors import Detector
from zmon.errors import UsageError
from zmon.hub import Hub, HubConfig
from zmon.stack import StackConfig

# A pass of the hub makes some 100,000 objects, hardly any of them in a cycle: looking for cycles among them every 700
# takes a quarter of the time of decoding.
_OBJECTS_A_PASS = 100_000


@click.command()
@bind_option
@public_option
@click.option("--port", type=PORT, default=StackConfig.hub_port, show_default=True)
@click.option(
    "--agents",
    envvar="ZMON_AGENTS",
    default=AGENT_URL,
    show_default=True,
    help="URL,URL,…",
)
@data_dir_option
@detectors_option
def hub(bind: str, public: bool, port: int, agents: str, data_dir: Path, detectors: tuple[Detector, ...]) -> None:
    """Line the ranks up, judge, publish findings."""
    urls = tuple(url.strip().rstrip("/") for url in agents.split(",") if url.strip())
    if not urls or not all(url.startswith(("http://", "https://")) for url in urls):
        raise UsageError(f"--agents {agents!r} names no agent", "it takes URLs", "for example http://node-1:9780")
    gc.set_threshold(_OBJECTS_A_PASS)
    serve("hub", bind, public, port, lambda: Hub(HubConfig(urls, data_dir, detectors)).app())
