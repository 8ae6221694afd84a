"""`zmon demo`: start all parts of zmon and a training on this machine."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import click
from click.core import ParameterSource
from rich.console import Console

from zmon.box.roots import own_root
from zmon.cli.one_machine import announcer, stack_options, stop_event, unless_stopped
from zmon.cli.render.demo import ending, progress_line, summary, url_table
from zmon.cli.replay import play
from zmon.client import AsyncHub
from zmon.errors import PartFailed, Unreachable, UsageError, need
from zmon.schema.finding import Finding
from zmon.schema.job import JobView
from zmon.stack import Stack, StackConfig
from zmon.stack.demo import DemoConfig, trainer_part
from zmon.stack.part import Part

_OF_TRAINING = ("ranks", "data", "data_dir")
DIAGNOSIS_SECONDS = 2.0  # this long after the trainer failed, the hub has published its finding


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


async def follow(
    stack: Stack, trainer: Part, config: DemoConfig, console: Console, stop: asyncio.Event, started_at: float
) -> tuple[bool, JobView | None, list[Finding]]:
    """Show progress until the job ends, `config.seconds` have passed since `started_at`, or `stop` is set.

    Returns True if all parts were healthy (not checked if `stop` was set), and the last views of the job and of its
    findings.
    """
    job: JobView | None = None
    findings: list[Finding] = []
    relay = Relay(trainer.log, console)
    shown = ""
    succeeded, ended = True, False
    assert trainer.process is not None
    async with AsyncHub(stack.urls.hub, timeout=2.0) as hub:
        while not stop.is_set():
            relay.show()
            try:
                jobs = await hub.jobs()
                job = next((j for j in jobs.jobs if j.job_id == config.job_id), job)
                findings = [*(await hub.findings(config.job_id)).findings]
            except Unreachable:
                pass  # the stack restarts the hub and prints a message
            shown = _show(console, job, findings, shown)
            if ended:
                succeeded = trainer.process.returncode == 0
                break
            ended = trainer.process.returncode is not None
            if ended and trainer.process.returncode:
                await asyncio.sleep(DIAGNOSIS_SECONDS)  # then ask the hub once more
            elif config.seconds is not None and time.monotonic() - started_at >= config.seconds:
                break
            try:
                await asyncio.wait_for(stop.wait(), 1.0)
            except TimeoutError:
                continue
    if sys.stdout.isatty():
        console.print()
    relay.show()
    if not succeeded:
        if not relay.num_lines:
            console.print(trainer.last_lines(), highlight=False, markup=False)
        console.print(f"the trainer {ending(trainer.process.returncode or 0)}; see its log: {trainer.log}")
        return False, job, findings
    unhealthy = [] if stop.is_set() else await stack.unhealthy()
    if unhealthy:
        console.print(f"unhealthy: {', '.join(unhealthy)}; see the logs in {trainer.log.parent}")
    return not unhealthy, job, findings


class Relay:
    """Prints the messages of the trainer and its probe as they appear in the trainer's log."""

    def __init__(self, log: Path, console: Console) -> None:
        self._log, self._console = log, console
        self._offset = 0
        self.num_lines = 0  # lines printed so far

    def show(self) -> None:
        """Print the new complete lines. An incomplete last line is printed by a later call."""
        with self._log.open("rb") as file:
            file.seek(self._offset)
            text = file.read()
        complete = text[: text.rfind(b"\n") + 1]
        self._offset += len(complete)
        for line in complete.decode("utf-8", "replace").splitlines():
            if line.startswith(("trainer: ", "zmon: ")):
                self._console.print(line, highlight=False, markup=False, soft_wrap=True)
                self.num_lines += 1


def _show(console: Console, job: JobView | None, findings: list[Finding], previous_line: str) -> str:
    line = progress_line(job, findings)
    if sys.stdout.isatty():
        print(f"\r\x1b[2K{line[: console.width - 1]}", end="", flush=True)
    elif line != previous_line:
        print(line, flush=True)
    return line
