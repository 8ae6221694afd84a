"""`zmon dashboard`: serve the Streamlit dashboard."""

from __future__ import annotations

import importlib.resources
import os
import sys

import click

from zmon.cli.options import HUB_URL, PROMETHEUS_URL, bind_option, port_option, public_option
from zmon.stack import StackConfig, need
from zmon.web import server


@click.command()
@bind_option
@public_option
@port_option(StackConfig.dashboard_port)
@click.option("--hub", envvar="ZMON_HUB_URL", default=HUB_URL, show_default=True, metavar="URL", help="URL of the hub.")
@click.option(
    "--prometheus",
    envvar="ZMON_PROMETHEUS_URL",
    default=PROMETHEUS_URL,
    show_default=True,
    metavar="URL",
    help="URL of Prometheus.",
)
def dashboard(bind: str, public: bool, port: int, hub: str, prometheus: str) -> None:
    """Serve the dashboard."""
    server.check_bind(bind, public)
    need("streamlit", "the dashboard", "dashboard")
    app = str(importlib.resources.files("dashboards") / "app.py")
    os.environ.update(ZMON_HUB_URL=hub, ZMON_PROMETHEUS_URL=prometheus)
    # By default Streamlit collects garbage after each refresh of each viewer, which takes half of a page's time.
    flags = {
        "server.port": port, "server.address": bind, "server.headless": "true",
        "server.fileWatcherType": "none", "browser.gatherUsageStats": "false", "client.toolbarMode": "minimal",
        "runner.postScriptGC": "false",
    }  # fmt: skip
    arguments = [word for flag, value in flags.items() for word in (f"--{flag}", str(value))]
    os.execv(sys.executable, [sys.executable, "-m", "streamlit", "run", app, *arguments])
