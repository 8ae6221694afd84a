"""`zmon mcp`: tools with which an assistant reads what zmon knows. Only `server` needs the package mcp.

`tools` asks the hub and makes the answers, `page` limits their length, and `fence` marks what comes from jobs.
"""

from __future__ import annotations

from pathlib import Path

import click

from zmon.cli.options import data_dir_option, http_config_option, hub_option, hub_url
from zmon.client import AsyncHub
from zmon.errors import need
from zmon.schema.http_config import HttpConfig


@click.command()
@data_dir_option
@hub_option
@http_config_option("hub")
def mcp(data_dir: Path, hub: str | None, http: HttpConfig | None) -> None:
    """Give an assistant read-only tools, over stdin and stdout (Model Context Protocol).

    The assistant starts this command: see docs/http.md. The tools show jobs, findings, incidents, ranks and runbooks.
    They change nothing.
    """
    need("mcp", "zmon mcp", "mcp")
    from zmon.cli.mcp.server import serve  # only here: no other command needs the package, which takes long to load

    serve(lambda: AsyncHub(hub_url(hub, data_dir), http=http))  # the stack of this machine may start later
