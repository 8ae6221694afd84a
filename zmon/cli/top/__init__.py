"""`zmon top`: a live view of the jobs in the terminal. Only `app` and what it imports need textual."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

import click

from zmon.cli.options import data_dir_option, http_config_option, hub_option, hub_url
from zmon.errors import UsageError, ZmonError, install_command
from zmon.schema.http_config import HttpConfig


@click.command()
@data_dir_option
@hub_option
@http_config_option("hub")
def top(data_dir: Path, hub: str | None, http: HttpConfig | None) -> None:
    """Show jobs, findings and ranks live. Press q to quit."""
    if not sys.stdout.isatty() or os.environ.get("TERM") == "dumb":
        raise UsageError("zmon top needs a terminal", "stdout is not one, or TERM is dumb", "Use zmon status instead")
    try:
        from zmon.cli.top.app import Top, connect  # imported only here: training nodes do not have textual
    except ModuleNotFoundError as error:
        missing = f"{error.name} is not installed"
        raise ZmonError("zmon top cannot run", missing, f"Run {install_command('top')}, or use zmon status") from error
    Top(hub_url(hub, data_dir), partial(connect, http=http)).run()
