"""`zmon mcp`: tools with which an assistant reads what zmon knows. Only `server` needs the package mcp.

`tools` asks the hub and makes the answers; `fence` marks the text from jobs in them and limits their length.
"""

from __future__ import annotations

import click

from zmon.cli.options import HubOptions, hub_options
from zmon.client import AsyncHub
from zmon.errors import need


@click.command()
@hub_options
def mcp(hub: HubOptions) -> None:
    """Give an assistant read-only tools, over stdin and stdout (Model Context Protocol).

    The assistant starts this command: see docs/http.md. The tools show jobs, findings, incidents, ranks and runbooks.
    They change nothing.
    """
    need("mcp", "zmon mcp", "mcp")
    from zmon.cli.mcp.server import serve  # only here: no other command needs the package, which takes long to load

    serve(lambda: AsyncHub(hub.url, http=hub.http))
