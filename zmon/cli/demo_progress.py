"""Follow the demo's training until the job, the time or the person ends it."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import aiohttp
from rich.console import Console

from zmon.cli.render.demo import ending, progress_line
from zmon.errors import Unreachable
from zmon.schema.api import FindingsRequest, JobsRequest, endpoints
from zmon.schema.finding import Finding
from zmon.schema.job import JobView
from zmon.stack import Stack
from zmon.stack.demo import DemoConfig
from zmon.stack.part import Part
from zmon.web import client

VERDICT_SECONDS = 2.0  # the hub has named who is to blame by then


async def follow(
    stack: Stack, trainer: Part, config: DemoConfig, console: Console, stop: asyncio.Event, begin: float
) -> tuple[bool, JobView | None, list[Finding]]:
    """Show progress until the job, the time (counted from `begin`) or the person ends it.

    Returns whether all parts were healthy (whoever ends it early does not ask), and the last views of the job and of
    its findings.
    """
    job: JobView | None = None
    findings: list[Finding] = []
    relay = Relay(trainer.log, console)
    shown = ""
    good, ended = True, False
    assert trainer.process is not None
    async with aiohttp.ClientSession() as session:
        while not stop.is_set():
            relay.show()
            try:
                jobs = await client.ask(session, stack.urls.hub, endpoints.JOBS, JobsRequest(), 2.0)
                job = next((j for j in jobs.jobs if j.job_id == config.job_id), job)
                request = FindingsRequest(config.job_id)
                findings = [*(await client.ask(session, stack.urls.hub, endpoints.FINDINGS, request, 2.0)).findings]
            except Unreachable:
                pass  # it is being started again; the supervisor says so
            shown = _show(console, job, findings, shown)
            if ended:
                good = trainer.process.returncode == 0
                break
            ended = trainer.process.returncode is not None
            if ended and trainer.process.returncode:
                await asyncio.sleep(VERDICT_SECONDS)  # and one more look
            elif config.seconds is not None and time.monotonic() - begin >= config.seconds:
                break
            try:
                await asyncio.wait_for(stop.wait(), 1.0)
            except TimeoutError:
                continue
    if sys.stdout.isatty():
        console.print()
    relay.show()
    if not good:
        if not relay.num_lines:
            console.print(trainer.last_lines(), highlight=False, markup=False)
        console.print(f"the trainer {ending(trainer.process.returncode or 0)}; its whole log is {trainer.log}")
        return False, job, findings
    sick = [] if stop.is_set() else await stack.unhealthy()
    if sick:
        console.print(f"not healthy: {', '.join(sick)}: see {trainer.log.parent}")
    return not sick, job, findings


class Relay:
    """Shows what the trainer and its probe complain about, as it comes into the trainer's log."""

    def __init__(self, log: Path, console: Console) -> None:
        self._log, self._console = log, console
        self._offset = 0
        self.num_lines = 0  # shown so far

    def show(self) -> None:
        """Whole lines only; the rest waits for the next call."""
        with self._log.open("rb") as file:
            file.seek(self._offset)
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._offset += len(whole)
        for line in whole.decode("utf-8", "replace").splitlines():
            if line.startswith(("trainer: ", "zmon: ")):
                self._console.print(line, highlight=False, markup=False, soft_wrap=True)
                self.num_lines += 1


def _show(console: Console, job: JobView | None, findings: list[Finding], before: str) -> str:
    line = progress_line(job, findings)
    if sys.stdout.isatty():
        print(f"\r\x1b[2K{line[: console.width - 1]}", end="", flush=True)
    elif line != before:
        print(line, flush=True)
    return line
