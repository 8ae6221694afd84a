"""The progress of `zmon demo` in the terminal, until the job ends, the time is over or Ctrl-C is pressed."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

from rich.console import Console

from zmon.cli.render.demo import ending, progress_line
from zmon.client import AsyncHub
from zmon.errors import Unreachable
from zmon.schema.finding import Finding
from zmon.schema.job import JobView
from zmon.stack import Stack
from zmon.stack.demo import DemoConfig
from zmon.stack.part import Part

DIAGNOSIS_SECONDS = 2.0  # this long after the trainer failed, the hub has published its finding


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
