"""`zmon agent`, `zmon hub`, `zmon dashboard`: one part each."""

from __future__ import annotations

import asyncio
import gc
import importlib.resources
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path

import aiohttp.web
import click

from zmon.agent import Agent, AgentConfig
from zmon.cli.options import (
    AGENT_URL,
    HUB_URL,
    PORT,
    bind_option,
    box_dir_option,
    data_dir_option,
    host_option,
    public_option,
)
from zmon.errors import UsageError
from zmon.hub import Hub, HubConfig
from zmon.stack import StackConfig, need
from zmon.web import server

# A pass of the hub makes some 100,000 objects, hardly any of them in a cycle: looking for cycles among them every 700
# takes a quarter of the time of decoding.
_OBJECTS_A_PASS = 100_000


@click.command()
@bind_option
@public_option
@click.option("--port", type=PORT, default=StackConfig.agent_port, show_default=True)
@box_dir_option
@host_option
@data_dir_option
@click.option("--without", envvar="ZMON_WITHOUT", default="", help="Sources to leave off, e.g. gpu,nic,steps.")
def agent(bind: str, public: bool, port: int, box_dir: Path, host: str, data_dir: Path, without: str) -> None:
    """Watch the ranks and the hardware of this node."""
    left_off = frozenset(name.strip() for name in without.split(",") if name.strip())
    _serve("agent", bind, public, port, lambda: Agent(AgentConfig(box_dir, host, data_dir, left_off)).app())


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
def hub(bind: str, public: bool, port: int, agents: str, data_dir: Path) -> None:
    """Line the ranks up, judge, publish findings."""
    urls = tuple(url.strip().rstrip("/") for url in agents.split(",") if url.strip())
    if not urls or not all(url.startswith(("http://", "https://")) for url in urls):
        raise UsageError(f"--agents {agents!r} names no agent", "it takes URLs", "for example http://node-1:9780")
    gc.set_threshold(_OBJECTS_A_PASS)
    _serve("hub", bind, public, port, lambda: Hub(HubConfig(urls, data_dir)).app())


@click.command()
@bind_option
@public_option
@click.option("--port", type=PORT, default=StackConfig.dashboard_port, show_default=True)
@click.option("--hub", envvar="ZMON_HUB_URL", default=HUB_URL, show_default=True)
@click.option(
    "--prometheus",
    envvar="ZMON_PROMETHEUS_URL",
    default=f"http://127.0.0.1:{StackConfig.prometheus_port}",
    show_default=True,
)
def dashboard(bind: str, public: bool, port: int, hub: str, prometheus: str) -> None:
    """Show it to people."""
    server.check_bind(bind, public)
    need("streamlit", "the dashboard", "dashboard")
    app = str(importlib.resources.files("dashboards") / "app.py")
    os.environ.update(ZMON_HUB_URL=hub, ZMON_PROMETHEUS_URL=prometheus)
    # Streamlit would collect garbage after each refresh of each viewer, half of a page's time.
    flags = {
        "server.port": port, "server.address": bind, "server.headless": "true",
        "server.fileWatcherType": "none", "browser.gatherUsageStats": "false", "client.toolbarMode": "minimal",
        "runner.postScriptGC": "false",
    }  # fmt: skip
    arguments = [word for flag, value in flags.items() for word in (f"--{flag}", str(value))]
    os.execv(sys.executable, [sys.executable, "-m", "streamlit", "run", app, *arguments])


def _serve(name: str, bind: str, public: bool, port: int, make: Callable[[], aiohttp.web.Application]) -> None:
    server.check_bind(bind, public)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")

    async def run() -> None:
        await server.serve(make(), bind, port, name)

    asyncio.run(run())
