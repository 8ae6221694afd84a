"""`zmon up` and `zmon demo`: everything on this machine."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from zmon.cli.options import box_dir_option, data_dir_option, host_option, warnings_option, webhook_option
from zmon.errors import PartFailed, UsageError
from zmon.stack import Stack, StackConfig, need
from zmon.stack.demo import DemoConfig, follow, summary, trainer_part, url_table


@click.command()
@data_dir_option
@box_dir_option
@host_option
@webhook_option
@warnings_option
@click.option("--ready-file", type=click.Path(path_type=Path, dir_okay=False), help="Receives the URLs as JSON.")
def up(
    data_dir: Path, box_dir: Path, host: str, webhook: str | None, webhook_warnings: str | None, ready_file: Path | None
) -> None:
    """Prometheus, Alertmanager, agent, hub and dashboard on this machine, until Ctrl-C."""
    if ready_file is not None and not os.access(ready_file.parent, os.W_OK | os.X_OK):
        why = "that directory cannot be written to" if ready_file.parent.is_dir() else "there is no such directory"
        raise UsageError(f"cannot write {ready_file}", why, "Choose another --ready-file")
    console = Console()

    async def run() -> None:
        stop = _stop_event()
        stack = Stack(StackConfig(data_dir, box_dir, host, webhook, webhook_warnings), _say(console))
        try:
            await stack.start()
            await _unless_stopped(stack.ready(), stop)
            if stop.is_set():
                return
            console.print(url_table(stack.urls, data_dir))
            if ready_file is not None:
                partial = ready_file.with_suffix(".partial")
                partial.write_text(json.dumps(asdict(stack.urls)))
                partial.rename(ready_file)
            await stop.wait()
        finally:
            await stack.stop()

    asyncio.run(run())


@click.command()
@data_dir_option
@box_dir_option
@host_option
@webhook_option
@warnings_option
@click.option("--seconds", type=click.FloatRange(min=1), help="End by itself after that long, with a summary.")
@click.option("--ranks", type=click.IntRange(1, 64), default=4, show_default=True)
@click.option("--data", type=click.Path(path_type=Path), help="A Criteo-Kaggle TSV to train on.")
def demo(
    data_dir: Path,
    box_dir: Path,
    host: str,
    webhook: str | None,
    webhook_warnings: str | None,
    seconds: float | None,
    ranks: int,
    data: Path | None,
) -> None:
    """Everything on this machine, and a synchronous DLRM training for it to watch."""
    if data is not None and not data.is_file():
        why = "it is no regular file" if data.exists() else "there is no such file"
        raise UsageError(f"cannot train on {data}", why, "name a Criteo-Kaggle TSV")
    need("torch", "the trainer", "trainer")
    console = Console()
    config = DemoConfig(f"demo-{datetime.now(UTC):%Y%m%dT%H%M%S}", ranks, seconds, data)

    async def run() -> bool:
        begin, stop = time.monotonic(), _stop_event()
        stack = Stack(StackConfig(data_dir, box_dir, host, webhook, webhook_warnings), _say(console))
        trainer = trainer_part(config, data_dir / "logs" / "trainer.log", box_dir, host)
        try:
            await stack.start()
            stack.add(trainer)
            await trainer.start()
            console.print(url_table(stack.urls, data_dir))
            await _unless_stopped(stack.ready(), stop)
            if stop.is_set():
                return True
            good, job, findings = await follow(stack, trainer, config, console, stop, begin)
            console.print(summary(job, findings))
            seen = job is not None and bool(job.step) and job.ranks_seen == job.world_size
            return good and (seen or stop.is_set())
        finally:
            await stack.stop()
            shutil.rmtree(box_dir / config.job_id, ignore_errors=True)  # nobody is left to ask about it

    if not asyncio.run(run()):
        raise PartFailed(
            "the demo was not healthy", "a part died, or not all ranks were seen", f"see {data_dir / 'logs'}"
        )


def _stop_event() -> asyncio.Event:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


async def _unless_stopped(work: Any, stop: asyncio.Event) -> None:
    task, stopped = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    await asyncio.wait((task, stopped), return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if task.done():
        task.result()
    else:
        task.cancel()


def _say(console: Console) -> Callable[[str], None]:
    return lambda line: console.print(f"zmon: {line}", highlight=False, markup=False, soft_wrap=True)
