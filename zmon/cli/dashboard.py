"""`zmon dashboard`: serve the Streamlit dashboard."""

from __future__ import annotations

import importlib.resources
import os
import ssl
import sys
from pathlib import Path

import click

from zmon.cli import options
from zmon.errors import UsageError, need
from zmon.schema.http_config import OF_DASHBOARD, VARIABLE
from zmon.stack import StackConfig
from zmon.web import server
from zmon.web.http_client import read_http_config
from zmon.web.tls import load_certificate


def _valid_http_config(path: Path) -> Path:
    """Return the path if the dashboard can use the file. Raises UsageError if it cannot."""
    config = read_http_config(path, *OF_DASHBOARD)
    sections = [section.tls_config for section in (config.hub, config.prometheus) if section]
    if any(tls and tls.server_name for tls in sections):
        raise UsageError(
            f"cannot use {path}", "the dashboard does not support server_name", "Write that name into the URLs"
        )
    return path


@click.command()
@options.bind_option
@options.insecure_public_option
@options.port_option(StackConfig.dashboard_port)
@options.url_option("--hub", "ZMON_HUB_URL", "the hub", options.HUB_URL, of_stack=False)
@options.url_option("--prometheus", "ZMON_PROMETHEUS_URL", "Prometheus", options.PROMETHEUS_URL, of_stack=False)
@options.file_option("--http-config", "http_config", VARIABLE, _valid_http_config, options.HTTP_CONFIG_HELP)
@click.option(
    "--certificate",
    envvar="ZMON_DASHBOARD_CERTIFICATE",
    nargs=2,
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    metavar="CERT KEY",
    help="Serve the pages with TLS, with these PEM files.",
)
def dashboard(
    bind: str,
    insecure_public: bool,
    port: int,
    hub: str,
    prometheus: str,
    http_config: Path | None,
    certificate: tuple[Path, Path] | None,
) -> None:
    """Serve the dashboard."""
    server.check_bind(bind, None, insecure_public)
    if certificate:
        load_certificate(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), *certificate)
    need("streamlit", "the dashboard", "dashboard")
    app = str(importlib.resources.files("dashboards") / "app.py")
    os.environ.update(ZMON_HUB_URL=hub, ZMON_PROMETHEUS_URL=prometheus)
    if http_config:
        os.environ[VARIABLE] = str(http_config)
    flags = {
        "server.port": port, "server.address": bind, "server.headless": "true",
        "server.fileWatcherType": "none", "browser.gatherUsageStats": "false", "client.toolbarMode": "minimal",
        "runner.postScriptGC": "false",  # garbage collection after each refresh of each viewer takes half of its time
    }  # fmt: skip
    if certificate:
        flags |= {"server.sslCertFile": str(certificate[0]), "server.sslKeyFile": str(certificate[1])}
    arguments = [word for flag, value in flags.items() for word in (f"--{flag}", str(value))]
    os.execv(sys.executable, [sys.executable, "-E", "-P", "-m", "streamlit", "run", app, *arguments])
