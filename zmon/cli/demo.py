"""`zmon demo`: start all parts of zmon and a training on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import click
from click.core import ParameterSource
from rich.console import Console

from zmon.box.roots import own_root
from zmon.cli.one_machine import announcer, stack_options, stop_event, unless_stopped
from zmon.cli.render.demo import progress_line, summary, url_table
from zmon.cli.replay import play
from zmon.client import AsyncHub
from zmon.errors import PartFailed, Unreachable, UsageError, need
from zmon.process import exit_text
from zmon.schema.finding import Finding
from zmon.schema.job import JobView
from zmon.stack import Stack, StackConfig
from zmon.stack.demo import DemoConfig, trainer_part
from zmon.stack.part import Part

_TRAINING_PARAMETERS = ("ranks", "data", "data_dir")  # a replay has no use for them
_POLL_SECONDS = 1.0  # between two requests to the hub
_DIAGNOSIS_SECONDS = 2.0  # from the failure of the trainer until the hub has published its finding


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
        typed = [
            name for name in _TRAINING_PARAMETERS if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        ]
        if typed:
            why = "--ranks and --data are for the training, and --data-dir is for what is kept"
            raise UsageError("--replay trains nothing and keeps nothing", why, "Leave them out")
        play(replay, config, seconds)
        return
    if data is not None and not data.is_file():
        why = "it is not a regular file" if data.exists() else "there is no such file"
        raise UsageError(f"cannot train on {data}", why, "Give the path of a Criteo-Kaggle TSV file")
    need("torch", "the trainer", "trainer")
    job = DemoConfig(f"demo-{datetime.now(UTC):%Y%m%dT%H%M%S}", ranks, seconds, data)
    if not asyncio.run(_train(config, job, Console(markup=False))):
        logs = config.data_dir / "logs"
        raise PartFailed("the demo failed", "a part died, or the hub did not see all ranks", f"See the logs in {logs}")


async def _train(config: StackConfig, job: DemoConfig, console: Console) -> bool:
    """Run the stack and the training.

    Return True if all parts were healthy and the hub saw all ranks, or if it was stopped before that.
    """
    started_at = time.monotonic()
    stop = stop_event()
    stack = Stack(config, announcer(console))
    trainer = trainer_part(job, config.data_dir / "logs" / "trainer.log", config.box_dir, config.host)
    try:
        await stack.start()
        stack.add(trainer)
        await trainer.start()
        console.print(url_table(stack.urls, config.data_dir, stack.has_dashboard))
        await unless_stopped(stack.ready(), stop)
        if stop.is_set():
            return True
        end = await _follow(stack, trainer, job, console, stop, started_at)
        console.print(summary(end.job, end.findings))
        is_complete = end.job is not None and bool(end.job.step) and end.job.ranks_seen == end.job.world_size
        return end.is_healthy and (is_complete or stop.is_set())
    finally:
        await stack.stop()
        boxes = (config.box_dir or own_root(os.environ)) / job.job_id
        shutil.rmtree(boxes, ignore_errors=True)  # no agent is left to read them


class DemoEnd(NamedTuple):
    """The end of a demo: whether all parts were healthy, and the last views of its job and of its findings."""

    is_healthy: bool  # after Ctrl-C, only the trainer has been checked
    job: JobView | None  # None: the hub has not seen it
    findings: list[Finding]


async def _follow(
    stack: Stack, trainer: Part, config: DemoConfig, console: Console, stop: asyncio.Event, started_at: float
) -> DemoEnd:
    """Show progress until the job ends, `config.seconds` have passed since `started_at`, or `stop` is set."""
    job: JobView | None = None
    findings: list[Finding] = []
    relay = Relay(trainer.log, console)
    line = ""
    has_ended = has_failed = False
    assert trainer.process is not None
    async with AsyncHub(stack.urls.hub, timeout=2.0) as hub:
        while not stop.is_set():
            relay.show()
            with contextlib.suppress(Unreachable):  # the stack restarts the hub and prints a message
                views = (await hub.jobs()).jobs
                job = next((view for view in views if view.job_id == config.job_id), job)
                findings = [*(await hub.findings(config.job_id)).findings]
            line = _show_progress(console, job, findings, line)
            if has_ended:
                has_failed = trainer.process.returncode != 0
                break
            has_ended = trainer.process.returncode is not None  # then the hub is asked once more
            if trainer.process.returncode:
                await asyncio.sleep(_DIAGNOSIS_SECONDS)
            elif config.seconds is not None and time.monotonic() - started_at >= config.seconds:
                break
            await unless_stopped(asyncio.sleep(_POLL_SECONDS), stop)
    if sys.stdout.isatty():
        console.print()
    relay.show()
    if has_failed:
        _print_failure(trainer, relay, console)
        return DemoEnd(False, job, findings)
    unhealthy = [] if stop.is_set() else await stack.unhealthy()
    if unhealthy:
        console.print(f"unhealthy: {', '.join(unhealthy)}; see the logs in {trainer.log.parent}")
    return DemoEnd(not unhealthy, job, findings)


def _print_failure(trainer: Part, relay: Relay, console: Console) -> None:
    """Print how the trainer ended. If it has printed no message of its own, print the end of its log first."""
    assert trainer.process is not None
    if not relay.num_lines:
        console.print(trainer.last_lines(), highlight=False)
    console.print(f"the trainer ended with {exit_text(trainer.process.returncode or 0)}; see its log: {trainer.log}")


class Relay:
    """Prints the messages of the trainer and its probe as they appear in the trainer's log."""

    def __init__(self, log: Path, console: Console) -> None:
        self._log, self._console = log, console
        self._offset = 0
        self.num_lines = 0  # lines printed so far

    def show(self) -> None:
        """Print the messages among the new lines. A last line without its end is left to a later call."""
        with self._log.open("rb") as file:
            file.seek(self._offset)
            text = file.read()
        complete = text[: text.rfind(b"\n") + 1]
        self._offset += len(complete)
        for line in complete.decode("utf-8", "replace").splitlines():
            if line.startswith(("trainer: ", "zmon: ")):
                self._console.print(line, highlight=False, soft_wrap=True)
                self.num_lines += 1


def _show_progress(console: Console, job: JobView | None, findings: list[Finding], previous_line: str) -> str:
    """Show the progress line, and return it: in place on a terminal, otherwise only if it has changed."""
    line = progress_line(job, findings)
    if sys.stdout.isatty():
        print(f"\r\x1b[2K{line[: console.width - 1]}", end="", flush=True)
    elif line != previous_line:
        print(line, flush=True)
    return line
