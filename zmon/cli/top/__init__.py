"""`zmon top`: a live view of the jobs in the terminal. Only `app` and what it imports need textual."""

from __future__ import annotations

import os
import sys
from functools import partial

import click

from zmon.cli.options import HubOptions, hub_options
from zmon.errors import UsageError, ZmonError, install_command


@click.command()
@hub_options
def top(hub: HubOptions) -> None:
    """Show jobs, findings and ranks live. Press q to quit."""
    if not sys.stdout.isatty() or os.environ.get("TERM") == "dumb":
        raise UsageError("zmon top needs a terminal", "stdout is not one, or TERM is dumb", "Use zmon status instead")
    try:
        from zmon.cli.top.app import Top, connect  # imported only here: training nodes do not have textual
    except ModuleNotFoundError as error:
        missing = f"{error.name} is not installed"
        raise ZmonError("zmon top cannot run", missing, f"Run {install_command('top')}, or use zmon status") from error
    Top(hub.url, partial(connect, http=hub.http)).run()
