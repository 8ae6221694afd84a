"""`zmon demo`: start all parts of zmon and a training on this machine."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from datetime import UTC, datetime
from pathlib import Path

import click
from click.core import ParameterSource
from rich.console import Console

from zmon.box.roots import own_root
from zmon.cli.demo_progress import follow
from zmon.cli.one_machine import announcer, stack_options, stop_event, unless_stopped
from zmon.cli.render.demo import summary, url_table
from zmon.cli.replay import play
from zmon.errors import PartFailed, UsageError, need
from zmon.stack import Stack, StackConfig
from zmon.stack.demo import DemoConfig, trainer_part

_OF_TRAINING = ("ranks", "data", "data_dir")


@click.command()
@stack_options
@click.option("--seconds", type=click.FloatRange(min=1), help="Stop after this many seconds. Default: at Ctrl-C.")
@click.option("--ranks", type=click.IntRange(1, 64), default=4, show_default=True, help="Number of ranks.")
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    help="Path of a Criteo-Kaggle TSV file to train on. Default: synthetic data.",
)
@click.option(
    "--replay",
    metavar="NAME",
    help="Show a recorded job and its fault instead of a training; it needs no torch. A wrong name lists all.",
)
@click.pass_context
def demo(
    context: click.Context,
    config: StackConfig,
    seconds: float | None,
    ranks: int,
    data: Path | None,
    replay: str | None,
) -> None:
    """Start all parts of zmon and a training on this machine.

    The training is a synchronous DLRM. Ctrl-C stops everything and prints a summary.

    Exit codes: 0 all parts were healthy, 1 a part failed or the hub did not see all ranks, 2 misuse.
    """
    if replay is not None:
        typed = [name for name in _OF_TRAINING if context.get_parameter_source(name) is ParameterSource.COMMANDLINE]
        if typed:
            why = "--ranks and --data are for the training, and --data-dir is for what is kept"
            raise UsageError("--replay trains nothing and keeps nothing", why, "Leave them out")
        play(replay, config, seconds)
        return
    if data is not None and not data.is_file():
        why = "it is not a regular file" if data.exists() else "there is no such file"
        raise UsageError(f"cannot train on {data}", why, "Give the path of a Criteo-Kaggle TSV file")
    need("torch", "the trainer", "trainer")
    console = Console()
    job, data_dir = DemoConfig(f"demo-{datetime.now(UTC):%Y%m%dT%H%M%S}", ranks, seconds, data), config.data_dir

    async def run() -> bool:
        started_at, stop = time.monotonic(), stop_event()
        stack = Stack(config, announcer(console))
        trainer = trainer_part(job, data_dir / "logs" / "trainer.log", config.box_dir, config.host)
        try:
            await stack.start()
            stack.add(trainer)
            await trainer.start()
            console.print(url_table(stack.urls, data_dir, stack.has_dashboard))
            await unless_stopped(stack.ready(), stop)
            if stop.is_set():
                return True
            healthy, view, findings = await follow(stack, trainer, job, console, stop, started_at)
            console.print(summary(view, findings))
            complete = view is not None and bool(view.step) and view.ranks_seen == view.world_size
            return healthy and (complete or stop.is_set())
        finally:
            await stack.stop()
            boxes = (config.box_dir or own_root(os.environ)) / job.job_id
            shutil.rmtree(boxes, ignore_errors=True)  # no agent is left to read them

    if not asyncio.run(run()):
        raise PartFailed(
            "the demo failed", "a part died, or the hub did not see all ranks", f"See the logs in {data_dir / 'logs'}"
        )
