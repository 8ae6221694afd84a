"""`zmon up`: start all parts of zmon on this machine."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Console

from zmon.cli.one_machine import announcer, stack_options, stop_event, unless_stopped
from zmon.cli.render.demo import url_table
from zmon.errors import UsageError
from zmon.stack import Stack, StackConfig


@click.command()
@stack_options
@click.option(
    "--ready-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Path of a file to write the URLs to, as JSON, once all parts are ready.",
)
def up(config: StackConfig, ready_file: Path | None) -> None:
    """Start all parts of zmon on this machine.

    The parts are Prometheus, Alertmanager, agent, hub and dashboard. Ctrl-C stops them.

    Exit codes: 0 stopped by a signal, 1 a part did not start, 2 misuse.
    """
    if ready_file is not None and not os.access(ready_file.parent, os.W_OK | os.X_OK):
        why = "its directory is not writable" if ready_file.parent.is_dir() else "there is no such directory"
        raise UsageError(f"cannot write {ready_file}", why, "Choose another --ready-file")
    console = Console(markup=False)

    async def run() -> None:
        stop = stop_event()
        stack = Stack(config, announcer(console))
        try:
            await stack.start()
            await unless_stopped(stack.ready(), stop)
            if stop.is_set():
                return
            console.print(url_table(stack.urls, config.data_dir, stack.has_dashboard))
            if ready_file is not None:
                partial = ready_file.with_suffix(".partial")
                partial.write_text(json.dumps(asdict(stack.urls)))
                partial.rename(ready_file)
            await stop.wait()
        finally:
            await stack.stop()

    asyncio.run(run())
