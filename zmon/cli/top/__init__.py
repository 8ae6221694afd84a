"""`zmon top`: the jobs, live, at the terminal. The screen itself is in `app`, which alone needs textual."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from zmon.cli.options import HUB_URL, data_dir_option, stack_url
from zmon.errors import UsageError, ZmonError


@click.command()
@data_dir_option
@click.option("--hub", envvar="ZMON_HUB_URL", help="Base URL of the hub.")
def top(data_dir: Path, hub: str | None) -> None:
    """Jobs, what is wrong with them, and their ranks, as they are now; until q."""
    if not sys.stdout.isatty() or os.environ.get("TERM") == "dumb":
        raise UsageError("zmon top needs a terminal", "it redraws the whole of it", "zmon status prints the same once")
    try:
        from zmon.cli.top.app import Top  # nobody else needs textual: training nodes do without
    except ModuleNotFoundError as error:
        missing = f"{error.name} is not installed"
        raise ZmonError("zmon top cannot run", missing, "pip install 'zmon[top]', or use zmon status") from error
    Top((hub or stack_url(data_dir, "hub") or HUB_URL).rstrip("/")).run()
